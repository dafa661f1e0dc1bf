"""What should be, for one host, after sku, software matrix, profile and inventory are joined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from qwenhost.records.peers import Peers


@dataclass(frozen=True)
class Sku:
    """What a product is. Figures come from data/skus/*.yaml, each with its source there."""

    name: str
    product: str
    """The driver's own name of the board."""
    pci_device_ids: tuple[str, ...]
    """Lower-case hexadecimal, four digits, vendor 10de."""
    form: str
    """sxm4, pcie, ..."""
    family: str
    """a100, a800, a30, h100, ..."""
    memory_mib: int | None = None
    pcie_width: int | None = None
    pcie_generation: int | None = None
    nvlink_links: int | None = None
    """Links per GPU on the board (0: none); None when it is not known."""
    nvswitch_at_gpus: tuple[int, ...] = ()
    """GPU counts for which the baseboard has NVSwitches and so needs the fabric manager."""
    nvlink_matrix: Mapping[int, str] = field(default_factory=dict)
    """GPU count -> expected cell between all pairs, such as {8: "NV12", 4: "NV4"}."""
    power_limit_watts: int | None = None
    temperature_memory_max_celsius: int | None = None
    ecc: str = ""
    """"row-remap" and "page-retirement": on by default, with that repair; "optional": off by default; empty: not
    known."""
    mig: str = ""
    """Name of the MIG profile table in data/mig/, empty when the product has none, or nobody wrote it down."""
    origin: str = ""


@dataclass(frozen=True)
class Setting:
    """One desired setting: the role applies and the check verifies this very line."""

    key: str
    value: str
    why: str
    origin: str
    raise_only: bool = False
    """True: a larger value that is already there is kept and holds."""
    bare_metal: bool = False
    """True: means nothing in a virtual machine."""


@dataclass(frozen=True)
class HugepagePool:
    """Pages wanted on one NUMA node (-1: on the host as a whole)."""

    node: int
    size_kib: int
    pages: int
    origin: str = ""


@dataclass(frozen=True)
class MigLayout:
    """Declared partition of one GPU: profile names in creation order; none with `enabled` False."""

    gpu: int
    enabled: bool
    profiles: tuple[str, ...] = ()
    origin: str = ""


@dataclass(frozen=True)
class VllmInstance:
    """One vLLM process of a host.

    `args` are the declared `vllm serve` options without the leading dashes; `options` is the whole content of
    its config file: what the role writes and the check compares.
    """

    name: str
    port: int
    gpus: tuple[int, ...] = ()
    mig: str = ""
    """GPU index and position of its MIG device, such as "0:1"; empty for whole GPUs."""
    args: Mapping[str, object] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Serving:
    """What a host should serve."""

    version: str
    package: str
    model_name: str
    model_path: str
    instances: tuple[VllmInstance, ...]
    model_source: Mapping[str, str] = field(default_factory=dict)
    """{"url"}, {"hub", "revision"} or {"controller"}: where it comes from; empty: it is on the host."""
    wheels: str = ""
    index_url: str = ""
    api_key_file: str = ""
    api_key_digest: str = ""
    """First eight digits of the SHA256 of what the host should hold; empty: not known here."""
    environment: Mapping[str, str] = field(default_factory=dict)
    proxy: Mapping[str, str | int] = field(default_factory=dict)
    """"address", "port", "certificate", "key" of the proxy before the instances; empty for none."""
    upgrade: Mapping[str, int] = field(default_factory=dict)
    """How a new version is measured: "throughput_drop_percent" that may be lost, and the load."""
    origin: str = ""


@dataclass(frozen=True)
class Driver:
    """Which driver a host should have, and where its packages come from.

    `mirror` (URL) or `folder` (path on the host) hold a flat APT repository; both empty: NVIDIA's own.
    `key_file`: file beside the inventory with the key that signs it.
    """

    version: str
    mirror: str = ""
    folder: str = ""
    key_file: str = ""
    origin: str = ""


@dataclass(frozen=True)
class Expectations:
    """All that is expected of one host; None or empty means: nothing was declared, so nothing is judged."""

    sku: Sku | None = None
    gpus: int | None = None
    gpus_origin: str = ""
    profile: str = ""
    sysctl: tuple[Setting, ...] = ()
    transparent_hugepages: Setting | None = None
    limits: tuple[Setting, ...] = ()
    governor: Setting | None = None
    swap: Setting | None = None
    """Its value is "off"; None: swap is not managed here."""
    shm: Setting | None = None
    """Size of /dev/shm in bytes."""
    nvidia_options: tuple[Setting, ...] = ()
    """Options of the nvidia module by name, such as NVreg_EnableStreamMemOPs."""
    kernel_args: tuple[Setting, ...] = ()
    """Each value is one argument, or several that belong side by side."""
    hugepages: tuple[HugepagePool, ...] = ()
    mig: tuple[MigLayout, ...] | None = None
    """None: partitioning is not managed here."""
    drain: bool = False
    """Services known to hold a GPU may be stopped while it is partitioned."""
    ecc: bool | None = None
    """Whether ECC should be on; None: as the product has it by default."""
    driver_version: str = ""
    driver: Driver | None = None
    """The driver that a role installs; None: it is not managed here."""
    driver_floor: str = ""
    """Lowest driver for the CUDA major version of the declared vLLM; empty when nothing is served."""
    driver_floor_origin: str = ""
    serving: Serving | None = None
    bridged_pairs: tuple[tuple[int, int], ...] = ()
    """GPU index pairs that NVLink bridges join on PCIe boards."""
    peers: Peers = field(default_factory=dict)
    """What most hosts of the same product have, where several are examined at once."""
    trials: bool = False
    """Active tests were asked for, so that their results are expected."""
    out_of_reach: Mapping[str, str] = field(default_factory=dict)
    """What cannot be set on this host, as it was seen: a kind of setting, or kind and key -> why not."""

    def why_not(self, kind: str, key: str = "") -> str:
        """Return why a setting cannot be made on this host, empty where it can."""
        return self.out_of_reach.get(f"{kind} {key}", "") or self.out_of_reach.get(kind, "")

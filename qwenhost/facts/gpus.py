"""The GPUs as the driver sees them, one record per GPU whatever tool it was read with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from qwenhost.facts.registry import filled
from qwenhost.records.source import Source, command, recorded

NVML = Source("nvml", "nvml", looks_like=r'\A\s*\{"system": \{')
"""JSON written by the probe's NVML reader."""

WITH_WARNINGS = (0, 14)
"""14: the answer is whole, and an InfoROM is corrupt (nvidia-smi manual)."""

QUERY = command(
    "nvidia-smi-q",
    "nvidia-smi",
    "-q",
    looks_like=r"^=+ ?NVSMI LOG ?=+|^GPU [0-9A-Fa-f]{8}:[0-9A-Fa-f:.]+\s*$",
    good_exits=WITH_WARNINGS,
)
XML = command("nvidia-smi-qx", "nvidia-smi", "-q", "-x", looks_like=r"<nvidia_smi_log", good_exits=WITH_WARNINGS)
CSV = recorded(
    "nvidia-smi-csv",
    looks_like=r"^(?=.*(?:pcie\.link|ecc\.|clocks|temperature\.|memory\.|power\.|utilization\.|mig\."
    r"|_rows\.|\buuid, |gpu_uuid|pci\.))"
    r"[a-z][a-z_]+(?:\.\w+)*(?: \[[\w%]+\])?(?:, [a-z][\w.]+(?: \[[\w%]+\])?)+\s*$",
)
"""Answers to --query-gpu and its like, with their header."""

LISTING = command(
    "nvidia-smi-L",
    "nvidia-smi",
    "-L",
    looks_like=r"^GPU \d+: .+\(UUID: [^)]*\)\s*$",
    good_exits=WITH_WARNINGS,
)
MIG_INSTANCES = recorded("nvidia-smi-mig-lgi", looks_like=r"^\| GPU instances:|^No GPU instances found")
"""Answers to `nvidia-smi mig -lgi`."""

TABLE = command(
    "nvidia-smi",
    "nvidia-smi",
    looks_like=(
        r"\| *NVIDIA-SMI \d|Failed to initialize NVML|couldn't communicate with the NVIDIA driver"
        r"|Unable to determine the device handle|^No devices were found|NVIDIA-SMI has failed"
        r"|nvidia-smi: (?:command )?not found|command not found: nvidia-smi"
    ),
    good_exits=WITH_WARNINGS,
)


@dataclass(frozen=True)
class Gpu:
    """One GPU; None: not seen. Widths in lanes, generations as numbers, Celsius, watts, MiB."""

    bus_id: str | None = None
    index: int | None = None
    name: str | None = None
    uuid: str | None = None
    serial: str | None = None
    device_id: str | None = None
    """PCI device id, four hexadecimal digits, lower case."""
    subsystem_id: str | None = None
    vbios: str | None = None
    inforom_image: str | None = None
    board_part: str | None = None
    gsp_firmware: str | None = None
    persistence: bool | None = None
    virtualization: str | None = None
    """None seen, "pass-through", "vgpu" ... lower case."""
    generation_current: int | None = None
    generation_max: int | None = None
    """What card and slot can do together."""
    generation_card: int | None = None
    """What the card alone can do."""
    width_current: int | None = None
    width_max: int | None = None
    performance_state: int | None = None
    utilization_percent: int | None = None
    memory_total_mib: int | None = None
    memory_used_mib: int | None = None
    """By programs, as nvidia-smi prints it: without what the driver keeps (`memory_reserved_mib`)."""
    memory_reserved_mib: int | None = None
    bar1_total_mib: int | None = None
    power_usage_watts: int | None = None
    power_limit_watts: int | None = None
    """The enforced limit."""
    power_default_watts: int | None = None
    temperature_celsius: int | None = None
    temperature_max_celsius: int | None = None
    """Above it the driver lowers clocks, above `temperature_slowdown_celsius` the hardware halves them."""
    temperature_slowdown_celsius: int | None = None
    margin_celsius: int | None = None
    """Degrees left to the nearest limit (T.Limit, from Ada and Hopper on); the limits are offsets to it."""
    margin_max_celsius: int | None = None
    margin_slowdown_celsius: int | None = None
    temperature_memory_celsius: int | None = None
    temperature_memory_max_celsius: int | None = None
    slowdowns: frozenset[str] | None = None
    """Active reasons for lower clocks, by the names in SLOWDOWNS."""
    clock_graphics_mhz: int | None = None
    clock_application_mhz: int | None = None
    """Highest graphics clock that programs are set to, and its default; recent drivers no longer tell."""
    clock_default_mhz: int | None = None
    ecc: bool | None = None
    ecc_pending: bool | None = None
    """After the next reset."""
    ecc_uncorrected_volatile: int | None = None
    ecc_uncorrected_aggregate: int | None = None
    sram_threshold_exceeded: bool | None = None
    channel_repair_pending: bool | None = None
    """Repairs that newer drivers make at the next reset, and what they cannot repair (from driver 580 on)."""
    tpc_repair_pending: bool | None = None
    unrepairable_memory: bool | None = None
    retired_pages_corrected: int | None = None
    """Pages set aside after repeated corrected errors, and after one uncorrected: boards before Ampere."""
    retired_pages_uncorrected: int | None = None
    retirement_pending: bool | None = None
    remaps_rows: bool | None = None
    """False: the driver was asked, and this board, or MIG mode, has no row remapping to tell of."""
    remap_pending: bool | None = None
    remap_failure: bool | None = None
    remapped_uncorrectable: int | None = None
    banks_without_spare: int | None = None
    banks_low_on_spares: int | None = None
    inforom_valid: bool | None = None
    mig: bool | None = None
    mig_pending: bool | None = None
    numa_node: int | None = None
    cpu_affinity: tuple[int, ...] | None = None
    recovery_action: str | None = None
    """"none", "gpu reset", "node reboot", "drain p2p", "drain and reset"; lower case."""
    fabric_state: str | None = None
    fabric_status: str | None = None
    """"success", or why the GPU did not get its part of the fabric; lower case."""
    fan: str | None = None
    lost: str | None = None
    """What the driver says in place of values when the GPU no longer answers."""

    @property
    def subject(self) -> str:
        """How findings name it."""
        number = "gpu" if self.index is None else f"gpu{self.index}"
        if self.index is None and not self.bus_id and self.uuid:
            return f"gpu {self.uuid}"
        return f"{number} {self.bus_id}" if self.bus_id else number

    @property
    def virtual(self) -> bool:
        """Whether the driver says that it runs in a virtual machine."""
        return self.virtualization is not None


SLOWDOWNS: dict[int, str] = {
    0x01: "idle",
    0x02: "application clocks",
    0x04: "software power cap",
    0x08: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
    0x100: "display clock",
}
"""Bits of nvmlDeviceGetCurrentClocksEventReasons (nvml.h)."""


@dataclass(frozen=True)
class Gpus:
    """All GPUs the driver lists, in its order. `attached` is the count it prints, also where blocks are
    left out.
    """

    gpus: tuple[Gpu, ...]
    attached: int | None = None

    @property
    def listed(self) -> int:
        """How many GPUs the driver lists."""
        return max(self.attached or 0, len(self.gpus))

    @property
    def answering(self) -> tuple[Gpu, ...]:
        """The GPUs that are not lost."""
        return tuple(gpu for gpu in self.gpus if gpu.lost is None)

    @property
    def virtual(self) -> bool:
        """Whether any GPU says that this is a virtual machine."""
        return any(gpu.virtual for gpu in self.gpus)

    def merge(self, other: Gpus) -> Gpus:
        """Fill each GPU from the other listing: by bus id, where there is none by UUID or index."""
        rest = list(other.gpus)
        joined = []
        for gpu in self.gpus:
            twin = next((candidate for candidate in rest if _same(gpu, candidate)), None)
            if twin:
                rest.remove(twin)
            joined.append(filled(gpu, twin) if twin else gpu)
        counts = [count for count in (self.attached, other.attached) if count is not None]
        return Gpus((*joined, *_strangers(joined, rest)), min(counts, default=None))


def _same(one: Gpu, two: Gpu) -> bool:
    if one.bus_id and two.bus_id:
        return one.bus_id == two.bus_id
    if one.uuid and two.uuid:
        return one.uuid == two.uuid
    return one.index is not None and one.index == two.index


def _strangers(known: Iterable[Gpu], rest: Iterable[Gpu]) -> tuple[Gpu, ...]:
    """Return GPUs that only the less trusted listing has; nameless ones add nothing where GPUs are known."""
    return tuple(gpu for gpu in rest if gpu.bus_id or not tuple(known))

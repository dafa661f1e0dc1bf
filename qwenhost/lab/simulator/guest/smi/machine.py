"""What nvidia-smi shows of the machine: GPUs chosen by -i, MIG devices, values as text."""

from __future__ import annotations

from typing import NamedTuple

from .. import state
from .errors import SmiError

NOT_AVAILABLE = "N/A"
RECOVERY = ("None", "Reset", "Reboot", "Drain P2P", "Drain and Reset")


class Profile(NamedTuple):
    """A GPU instance profile, as the state file holds it."""

    id: int
    name: str
    slices: int
    memory_slices: int
    memory_mib: int
    multiprocessors: int
    maximum: int
    copy_engines: int
    decoders: int
    jpeg: int
    ofa: int
    starts: tuple[int, ...]


class MigDevice(NamedTuple):
    """A compute instance with its GPU instance: what -L lists as a MIG device."""

    number: int
    gpu_instance: int
    compute_instance: int
    slices: int
    uuid: str
    profile: Profile

    @property
    def name(self) -> str:
        """Name such as 3g.40gb, or 1c.3g.40gb when the compute instance takes a part."""
        part = "" if self.slices == self.profile.slices else f"{self.slices}c."
        return part + self.profile.name


class Gpu:
    """One GPU that the driver sees; `index` is NVML's, `slot` the board's."""

    def __init__(self, values: state.Values, index: int, slot: int) -> None:
        self.values, self.index, self.slot = values, index, slot

    def text(self, key: str, default: str = NOT_AVAILABLE) -> str:
        """Return a value as it stands."""
        return state.get(self.values, self.slot, key, default)

    def number(self, key: str) -> int:
        """Return a whole number, 0 where it is absent."""
        return int(state.get(self.values, self.slot, key, "0") or "0", 0)

    @property
    def bus_id(self) -> str:
        """Bus id with eight digits of domain, upper case."""
        return f"0000{self.text('bus_id').upper()}"

    @property
    def lost(self) -> bool:
        """True when the GPU does not answer."""
        return self.number("lost") == 1

    @property
    def mig(self) -> bool:
        """True in MIG mode."""
        return self.number("mig_mode") == 1

    def instances(self) -> dict[int, list[int]]:
        """Return GPU instance id -> [profile, start, size], by id."""
        keys = {number: self.values.get(f"gpu{self.slot}.gi{number}") for number in range(14)}
        return {number: [int(part) for part in text.split(":")] for number, text in keys.items() if text}

    def computes(self, instance: int) -> dict[int, list[int]]:
        """Return compute instance id -> [profile, start, size] of a GPU instance."""
        keys = {number: self.values.get(f"gpu{self.slot}.gi{instance}.ci{number}") for number in range(7)}
        return {number: [int(part) for part in text.split(":")] for number, text in keys.items() if text}

    def mig_devices(self) -> list[MigDevice]:
        """Return the MIG devices in NVML's order."""
        table = profiles(self.values)
        found: list[MigDevice] = []
        for instance, (profile, _, _) in self.instances().items():
            for compute, (_, _, size) in self.computes(instance).items():
                uuid = self.values[f"gpu{self.slot}.gi{instance}.ci{compute}.uuid"]
                found.append(MigDevice(len(found), instance, compute, size, uuid, table[profile]))
        return found

    def clients(self) -> list[list[str]]:
        """Return [pid, name, MiB] of each process that holds the GPU."""
        return [one.split("/") for one in self.text("clients", "").split(",") if one]


def profiles(values: state.Values) -> dict[int, Profile]:
    """Return the profiles of the board by id, in the order of `mig -lgip`."""
    table = {}
    for number in (19, 20, 15, 14, 9, 5, 0):
        name, _, *counts, starts = values[f"profile.{number}"].split(":")
        slices, memory_slices, mib, processors, most, copy, decoders, jpeg, ofa = map(int, counts)
        order = tuple(sorted(int(start) for start in starts.split(",")))
        sizes = (slices, memory_slices, mib, processors, most)
        table[number] = Profile(number, name, *sizes, copy, decoders, jpeg, ofa, order)
    return table


def all_gpus(values: state.Values) -> list[Gpu]:
    """Return every GPU that the driver sees."""
    return [Gpu(values, index, slot) for index, slot in enumerate(state.slots(values))]


def chosen_gpus(values: state.Values, selection: str) -> list[Gpu]:
    """Return the GPUs that -i names by index, UUID, serial or bus id; all when empty. Raises SmiError."""
    gpus = all_gpus(values)
    if not selection:
        return gpus
    return [_find(gpus, name.strip()) for name in selection.split(",")]


def _find(gpus: list[Gpu], name: str) -> Gpu:
    for gpu in gpus:
        short = gpu.text("bus_id").lower()
        names = (str(gpu.index), gpu.text("uuid"), gpu.text("serial"), gpu.bus_id.lower(), short, short[5:])
        if name in names or name.lower() in names:
            return gpu
    raise SmiError("No devices were found", 6)


def cuda_version(values: state.Values) -> str:
    """Return the CUDA version that the driver supports, such as 13.0."""
    number = int(values["driver.cuda"])
    return f"{number // 1000}.{number % 1000 // 10}"


def switched(on: bool) -> str:
    """Return Enabled or Disabled."""
    return "Enabled" if on else "Disabled"


def watts(milliwatts: int) -> str:
    """Return a power as 400.00."""
    return f"{milliwatts / 1000:.2f}"

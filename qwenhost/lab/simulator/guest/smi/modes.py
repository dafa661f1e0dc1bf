"""nvidia-smi -mig, -pm, -pl and --gpu-reset."""

from __future__ import annotations

from .. import state
from .errors import SmiError
from .library import IN_USE, Nvml
from .machine import Gpu

EARLY = "Terminating early due to previous errors."
HELD = (
    "{0} is currently being used by one or more other processes (e.g. CUDA application or a monitoring "
    "application such as another instance of nvidia-smi). Please first kill all processes using the device "
    "and retry the command or reboot the system to make MIG mode effective."
)
RESET_HELD = (
    "The following GPUs could not be reset:\n  GPU {0}: In use by another client\n\n"
    "1 device is currently being used by one or more other processes (e.g., Fabric Manager, CUDA "
    "application, graphics application such as an X server, or a monitoring application such as another "
    "instance of nvidia-smi). Please first kill all processes using this device and all compute applications "
    "running in the system."
)


def set_mig(nvml: Nvml, gpus: list[Gpu], mode: int) -> str:
    """Switch MIG mode; a GPU that a client holds gets it pending. Raises SmiError."""
    verb = "enable" if mode else "disable"
    lines = []
    for gpu in gpus:
        code, activation = nvml.mig_mode(gpu.slot, mode)
        if code:
            reason = nvml.reason(code)
            raise SmiError(f"Unable to {verb} MIG Mode for GPU {gpu.bus_id}: {reason}\n{EARLY}", code)
        if activation == IN_USE:
            reason = nvml.reason(activation)
            lines.append(f"Warning: MIG mode is in pending {verb} state for GPU {gpu.bus_id}:{reason}")
            lines.append(HELD.format(gpu.bus_id))
        else:
            lines.append(f"{verb.capitalize()}d MIG Mode for GPU {gpu.bus_id}")
    return "\n".join([*lines, "All done.", ""])


def set_persistence(nvml: Nvml, gpus: list[Gpu], mode: int) -> str:
    """Switch persistence mode. Raises SmiError."""
    lines = []
    for gpu in gpus:
        word = "Enabled" if mode else "Disabled"
        if gpu.number("persistence") == mode:
            lines.append(f"Persistence mode is already {word} for GPU {gpu.bus_id}.")
            continue
        code = nvml.set_number("nvmlDeviceSetPersistenceMode", gpu.slot, mode)
        if code:
            reason = nvml.reason(code)
            raise SmiError(f"Unable to set persistence mode for GPU {gpu.bus_id}: {reason}\n{EARLY}", code)
        lines.append(f"{word} persistence mode for GPU {gpu.bus_id}.")
    return "\n".join([*lines, "All done.", ""])


def set_power(nvml: Nvml, gpus: list[Gpu], limit_watts: float) -> str:
    """Set the power limit. Raises SmiError."""
    lines = []
    for gpu in gpus:
        old = gpu.number("power_limit_mw") / 1000
        code = nvml.set_number("nvmlDeviceSetPowerManagementLimit", gpu.slot, int(limit_watts * 1000))
        if code:
            low, high = gpu.number("power_min_mw") / 1000, gpu.number("power_max_mw") / 1000
            text = f"Provided power limit {limit_watts:.2f} W is not a valid power limit which should be "
            text += f"between {low:.2f} W and {high:.2f} W for GPU {gpu.bus_id}"
            permission = f"Unable to set the power limit for GPU {gpu.bus_id}: {nvml.reason(code)}"
            raise SmiError(f"{text if code == 2 else permission}\n{EARLY}", code)
        lines.append(f"Power limit for GPU {gpu.bus_id} was set to {limit_watts:.2f} W from {old:.2f} W.")
    return "\n".join([*lines, "All done.", ""])


def reset(gpus: list[Gpu]) -> str:
    """Reset GPUs: the pending mode holds, instances and volatile counters go, a remap is done.

    Raises SmiError when a client holds one.
    """
    for gpu in gpus:
        if gpu.clients():
            raise SmiError(RESET_HELD.format(gpu.bus_id), IN_USE)
    try:
        with state.change() as values:
            for gpu in gpus:
                _reset_one(values, gpu.slot)
    except PermissionError as error:
        raise SmiError("Unable to reset GPUs: Insufficient Permissions", 4) from error
    return "".join(f"GPU {gpu.bus_id} was successfully reset.\n" for gpu in gpus) + "All done.\n"


def _reset_one(values: state.Values, slot: int) -> None:
    own = f"gpu{slot}."
    for key in [key for key in values if key.startswith((f"{own}gi", f"{own}ecc_volatile"))]:
        del values[key]
    values[f"{own}mig_mode"] = state.get(values, slot, "mig_pending", "0")
    values[f"{own}remap_pending"] = "0"
    values[f"{own}recovery_action"] = "0"

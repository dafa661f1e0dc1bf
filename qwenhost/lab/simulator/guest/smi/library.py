"""The few NVML calls that nvidia-smi needs here, through ctypes; all rules of MIG live in the library."""

from __future__ import annotations

import ctypes

from .. import state
from .errors import SmiError

IN_USE = 19
NO_LIBRARY = (
    "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the NVIDIA "
    "Display Driver is properly installed and present in your system.\n"
    "Please also try adding directory that contains libnvidia-ml.so to your system PATH."
)
NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest "
    "NVIDIA driver is installed and running.\n"
)


class Nvml:
    """An initialised library. `slot` counts board slots; NVML counts only GPUs that the driver sees."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        library.nvmlErrorString.restype = ctypes.c_char_p

    def call(self, name: str, *arguments: object) -> int:
        """Return the NVML result of a call."""
        return int(getattr(self._library, name)(*arguments))

    def reason(self, code: int) -> str:
        """Return NVML's text of a result."""
        text: bytes = self._library.nvmlErrorString(code)
        return text.decode()

    def device(self, slot: int) -> ctypes.c_void_p:
        """Return the handle of the GPU in a slot. Raises SmiError when it is lost."""
        values = state.read()
        handle = ctypes.c_void_p()
        index = state.slots(values).index(slot)
        code = self.call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
        if code:
            raise SmiError(lost_text(values, slot, self.reason(code)), code)
        return handle

    def mig_mode(self, slot: int, mode: int) -> tuple[int, int]:
        """Set the MIG mode; return NVML's result and the activation status."""
        status = ctypes.c_int()
        code = self.call("nvmlDeviceSetMigMode", self.device(slot), ctypes.c_uint(mode), ctypes.byref(status))
        return code, status.value

    def create_gpu_instance(self, slot: int, profile: int) -> tuple[int, int]:
        """Create a GPU instance; return NVML's result and the new id."""
        handle, before = ctypes.c_void_p(), _instances(slot)
        device = self.device(slot)
        code = self.call("nvmlDeviceCreateGpuInstance", device, ctypes.c_uint(profile), ctypes.byref(handle))
        made = [instance for instance in _instances(slot) if instance not in before]
        return code, made[0] if made else -1

    def _gpu_instance(self, slot: int, instance: int) -> tuple[int, ctypes.c_void_p]:
        handle = ctypes.c_void_p()
        device = self.device(slot)
        code = self.call("nvmlDeviceGetGpuInstanceById", device, ctypes.c_uint(instance), ctypes.byref(handle))
        return code, handle

    def destroy_gpu_instance(self, slot: int, instance: int) -> int:
        """Destroy a GPU instance; return NVML's result."""
        code, handle = self._gpu_instance(slot, instance)
        return code or self.call("nvmlGpuInstanceDestroy", handle)

    def create_compute_instance(self, slot: int, instance: int, profile: int) -> int:
        """Create a compute instance; return NVML's result."""
        code, handle = self._gpu_instance(slot, instance)
        made = ctypes.c_void_p()
        create = "nvmlGpuInstanceCreateComputeInstance"
        return code or self.call(create, handle, ctypes.c_uint(profile), ctypes.byref(made))

    def destroy_compute_instance(self, slot: int, instance: int, compute: int) -> int:
        """Destroy a compute instance; return NVML's result."""
        code, handle = self._gpu_instance(slot, instance)
        found = ctypes.c_void_p()
        by_id = "nvmlGpuInstanceGetComputeInstanceById"
        code = code or self.call(by_id, handle, ctypes.c_uint(compute), ctypes.byref(found))
        return code or self.call("nvmlComputeInstanceDestroy", found)

    def remaining(self, slot: int, profile: int) -> int:
        """Return how many more GPU instances of a profile fit."""
        count = ctypes.c_uint()
        name = "nvmlDeviceGetGpuInstanceRemainingCapacity"
        self.call(name, self.device(slot), ctypes.c_uint(profile), ctypes.byref(count))
        return count.value

    def set_number(self, name: str, slot: int, value: int) -> int:
        """Call a setter that takes one unsigned number; return NVML's result."""
        return self.call(name, self.device(slot), ctypes.c_uint(value))


def _instances(slot: int) -> list[int]:
    values = state.read()
    return [instance for instance in range(14) if f"gpu{slot}.gi{instance}" in values]


def lost_text(values: state.Values, slot: int, reason: str) -> str:
    """Return nvidia-smi's line for a GPU that does not answer."""
    index = state.slots(values).index(slot)
    bus_id = values[f"gpu{slot}.bus_id"].upper()
    advice = ".  Reboot the system to recover this GPU" if "lost" in reason else ""
    return f"Unable to determine the device handle for GPU{index}: {bus_id}: {reason}{advice}"


def start() -> Nvml:
    """Load and initialise NVML. Raises SmiError with the real tool's words and exit codes."""
    below = state.root() / "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
    try:
        library = ctypes.CDLL(str(below) if state.root().name else "libnvidia-ml.so.1")
    except OSError as error:
        raise SmiError(NO_LIBRARY, 12) from error
    nvml = Nvml(library)
    code = nvml.call("nvmlInit_v2")
    if code == 18:
        version = state.read()["driver.library_version"].rsplit(".", 1)[0]
        reason = nvml.reason(code)
        raise SmiError(f"Failed to initialize NVML: {reason}\nNVML library version: {version}", code)
    if code:
        raise SmiError(NO_DRIVER if code == 9 else f"Failed to initialize NVML: {nvml.reason(code)}", code)
    return nvml

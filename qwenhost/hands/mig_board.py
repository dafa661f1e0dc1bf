"""What NVML tells of a GPU's MIG mode, profiles and instances."""

from __future__ import annotations

import math
from ctypes import byref, c_uint
from typing import Any, Iterator, NamedTuple

import pynvml

from qwenhost.hands.answer import Refused
from qwenhost.hands.mig_layout import Placed, Profile, Wanted, in_order
from qwenhost.hands.nvml import supported, text

COMPUTE_OF_SLICES = {1: 0, 2: 1, 3: 2, 4: 3, 7: 4, 8: 5, 6: 6}
"""NVML_COMPUTE_INSTANCE_PROFILE_n_SLICE of the compute instance that covers n slices; source: nvml.h."""
ATTRIBUTES = {
    **dict.fromkeys((7, 8), "+me"),
    **dict.fromkeys((10, 11, 12, 17), "+gfx"),
    **dict.fromkeys((13, 14), "-me"),
    **dict.fromkeys((15, 16), "+me.all"),
}
"""Name suffix of a NVML_GPU_INSTANCE_PROFILE constant; source: nvml.h, nvidia-smi mig -lgip."""
MEMORY_SLICES = 8
MIB_PER_GIB = 1024


class Instance(NamedTuple):
    """A GPU instance; `whole`: exactly one compute instance covers it."""

    handle: Any
    profile: Profile
    start: int
    whole: bool


def device(gpu: int) -> Any:
    """Return the handle of a GPU. Raises Refused for an index that the driver does not have."""
    count = pynvml.nvmlDeviceGetCount()
    if gpu >= count:
        raise Refused("the driver has no gpu {}: it counts {}".format(gpu, count))
    return pynvml.nvmlDeviceGetHandleByIndex(gpu)


def modes(handle: Any) -> tuple[bool, bool] | None:
    """Return MIG mode (current, pending), None where the board has no MIG."""
    answer = supported(pynvml.nvmlDeviceGetMigMode, handle)
    return None if answer is None else (bool(answer[0]), bool(answer[1]))


def profiles(handle: Any) -> list[Profile]:
    """Return the GPU instance profiles of a GPU in MIG mode; it tells none in another."""
    constants = range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT)
    found = (_profile(handle, constant) for constant in constants)
    return [profile for profile in found if profile is not None]


def _profile(handle: Any, constant: int) -> Profile | None:
    info = supported(pynvml.nvmlDeviceGetGpuInstanceProfileInfo, handle, constant, 2)
    name = text(info.name).replace("MIG ", "", 1) if info is not None else ""
    if info is None:  # before R510 the driver tells no names
        info = supported(pynvml.nvmlDeviceGetGpuInstanceProfileInfo, handle, constant, 1)
    if info is None:
        return None
    starts, size = _placements(handle, info.id)
    name = name or computed_name(handle, constant, info.sliceCount, info.memorySizeMB)
    return Profile(info.id, name, info.sliceCount, info.memorySizeMB, info.instanceCount, starts, size)


def computed_name(handle: Any, constant: int, slices: int, memory_mib: int) -> str:
    """Return a profile's name as NVIDIA forms it: the share of memory in eighths, rounded up, of whole GiB."""
    total_mib = pynvml.nvmlDeviceGetMemoryInfo(handle).total / 2**20
    eighths = math.ceil(memory_mib / total_mib * MEMORY_SLICES)
    gib = round(eighths / MEMORY_SLICES * math.ceil(total_mib / MIB_PER_GIB))
    return "{}g.{}gb{}".format(slices, gib, ATTRIBUTES.get(constant, ""))


def _placements(handle: Any, profile_id: int) -> tuple[tuple[int, ...], int]:
    """Return the first memory slices where a profile may stand, and its size in slices."""
    ask, count = pynvml.nvmlDeviceGetGpuInstancePossiblePlacements, c_uint(0)
    ask(handle, profile_id, None, byref(count))
    places = (pynvml.c_nvmlGpuInstancePlacement_t * max(1, count.value))()
    ask(handle, profile_id, places, byref(count))
    used = places[: count.value]
    return tuple(place.start for place in used), max((place.size for place in used), default=0)


def instances(handle: Any, known: list[Profile]) -> list[Instance]:
    """Return the GPU instances of a GPU in MIG mode."""
    return [_instance(one, profile) for profile in known for one in _of_profile(handle, profile)]


def _of_profile(handle: Any, profile: Profile) -> list[Any]:
    array = (pynvml.c_nvmlGpuInstance_t * max(1, profile.limit))()
    count = c_uint(profile.limit)
    pynvml.nvmlDeviceGetGpuInstances(handle, profile.id, array, byref(count))
    return list(array[: count.value])


def _instance(handle: Any, profile: Profile) -> Instance:
    covered = [slices for slices, _ in compute_instances(handle)]
    start = pynvml.nvmlGpuInstanceGetInfo(handle).placement.start
    return Instance(handle, profile, start, covered == [profile.slices])


def compute_instances(handle: Any) -> Iterator[tuple[int, Any]]:
    """Yield the compute instances of a GPU instance, each with its slices."""
    seen = set()
    for constant in range(pynvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
        info = compute_profile(handle, constant)
        if info is None or info.id in seen:
            continue
        seen.add(info.id)
        array = (pynvml.c_nvmlComputeInstance_t * max(1, info.instanceCount))()
        count = c_uint(info.instanceCount)
        pynvml.nvmlGpuInstanceGetComputeInstances(handle, info.id, array, byref(count))
        for one in array[: count.value]:
            yield info.sliceCount, one


def compute_profile(handle: Any, constant: int) -> Any:
    """Return NVML's description of a compute instance profile, None where the GPU instance does not offer it."""
    shared = pynvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED
    ask = pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo
    return supported(ask, handle, constant, shared, 1)


def mig_handles(handle: Any) -> Iterator[tuple[str, Any]]:
    """Yield the MIG devices of a GPU: UUID and handle."""
    for index in range(supported(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
        try:
            one = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except pynvml.NVMLError as error:
            if error.value in (pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_NOT_SUPPORTED):
                continue
            raise
        yield text(pynvml.nvmlDeviceGetUUID(one)), one


def create(handle: Any, placed: Placed) -> Any:
    """Create a GPU instance at its place and return its handle."""
    profile = placed.profile
    where = pynvml.c_nvmlGpuInstancePlacement_t(placed.start, profile.size)
    return pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(handle, profile.id, byref(where))


def describe(gpu: int, handle: Any) -> str:
    """Return a line such as "gpu 0: MIG on: 3g.40gb, 3g.40gb"."""
    mode = modes(handle)
    if mode is None or mode == (False, False):
        return wanted_line(Wanted(gpu, False, ()))
    if mode[0] != mode[1]:
        return "gpu {}: MIG {} until a reboot, then {}".format(gpu, *(("off", "on")[each] for each in mode))
    found = instances(handle, profiles(handle))
    line = wanted_line(Wanted(gpu, True, in_order([one.profile.name for one in found])))
    partial = sum(not one.whole for one in found)
    return line if not partial else "{} ({} without its compute instance)".format(line, partial)


def wanted_line(wanted: Wanted) -> str:
    """Return the line that `describe` gives once the layout is in force."""
    if not wanted.mig:
        return "gpu {}: MIG off".format(wanted.gpu)
    return "gpu {}: MIG on: {}".format(wanted.gpu, ", ".join(wanted.instances) or "no instances")


def name(handle: Any) -> str:
    """Return the product's name."""
    return text(pynvml.nvmlDeviceGetName(handle))

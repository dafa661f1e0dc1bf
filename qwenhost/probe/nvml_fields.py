"""Which NVML functions give which field. Numbers are NVML's own, with its units in the field's name."""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Dict, Tuple, Union

Ask = Callable[[Callable[[], Any]], Any]
"""Runs a call and returns its value, or {"error": name}."""

SIMPLE = {
    "name": "nvmlDeviceGetName",
    "uuid": "nvmlDeviceGetUUID",
    "serial": "nvmlDeviceGetSerial",
    "vbios_version": "nvmlDeviceGetVbiosVersion",
    "inforom_image_version": "nvmlDeviceGetInforomImageVersion",
    "board_part_number": "nvmlDeviceGetBoardPartNumber",
    "persistence_mode": "nvmlDeviceGetPersistenceMode",
    "link_generation_current": "nvmlDeviceGetCurrPcieLinkGeneration",
    "link_generation_max": "nvmlDeviceGetMaxPcieLinkGeneration",
    "link_generation_gpu_max": "nvmlDeviceGetGpuMaxPcieLinkGeneration",
    "link_width_current": "nvmlDeviceGetCurrPcieLinkWidth",
    "link_width_max": "nvmlDeviceGetMaxPcieLinkWidth",
    "pcie_replay_counter": "nvmlDeviceGetPcieReplayCounter",
    "performance_state": "nvmlDeviceGetPerformanceState",
    "power_limit_milliwatts": "nvmlDeviceGetPowerManagementLimit",
    "power_limit_default_milliwatts": "nvmlDeviceGetPowerManagementDefaultLimit",
    "power_limit_enforced_milliwatts": "nvmlDeviceGetEnforcedPowerLimit",
    "power_usage_milliwatts": "nvmlDeviceGetPowerUsage",
    "clocks_event_reasons": "nvmlDeviceGetCurrentClocksThrottleReasons",  # also in drivers before 535
    "numa_node": "nvmlDeviceGetNumaNodeId",
    "gsp_firmware_version": "nvmlDeviceGetGspFirmwareVersion",
}
"""Field -> function of the device handle alone."""

PARTS: Dict[str, Tuple[str, Union[str, int]]] = {
    "bus_id": ("nvmlDeviceGetPciInfo", "busId"),
    "pci_device_id": ("nvmlDeviceGetPciInfo", "pciDeviceId"),
    "pci_subsystem_id": ("nvmlDeviceGetPciInfo", "pciSubSystemId"),
    "memory_total_bytes": ("nvmlDeviceGetMemoryInfo", "total"),
    "memory_used_bytes": ("nvmlDeviceGetMemoryInfo", "used"),
    "bar1_total_bytes": ("nvmlDeviceGetBAR1MemoryInfo", "bar1Total"),
    "utilization_gpu_percent": ("nvmlDeviceGetUtilizationRates", "gpu"),
    "ecc_mode_current": ("nvmlDeviceGetEccMode", 0),
    "ecc_mode_pending": ("nvmlDeviceGetEccMode", 1),
    "mig_mode_current": ("nvmlDeviceGetMigMode", 0),
    "mig_mode_pending": ("nvmlDeviceGetMigMode", 1),
}
"""Field -> function, and the attribute or position of the field in its answer."""

CODED: Dict[str, Any] = {
    "temperature_gpu_celsius": ("nvmlDeviceGetTemperature", 0),
    "temperature_threshold_shutdown_celsius": ("nvmlDeviceGetTemperatureThreshold", 0),
    "temperature_threshold_slowdown_celsius": ("nvmlDeviceGetTemperatureThreshold", 1),
    "temperature_threshold_memory_max_celsius": ("nvmlDeviceGetTemperatureThreshold", 2),
    "temperature_threshold_gpu_max_celsius": ("nvmlDeviceGetTemperatureThreshold", 3),
    "ecc_uncorrected_volatile": ("nvmlDeviceGetTotalEccErrors", 1, 0),
    "ecc_uncorrected_aggregate": ("nvmlDeviceGetTotalEccErrors", 1, 1),
}
"""Field -> function and NVML's codes for its further arguments."""

FIELD_VALUES = {"temperature_memory_celsius": 82, "recovery_action": 230}
"""Field -> id of an NVML field value: NVML_FI_DEV_MEMORY_TEMP, NVML_FI_DEV_GET_GPU_RECOVERY_ACTION."""

VALUE_TYPES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Members of nvmlValue_t in the order of NVML_VALUE_TYPE_*."""

P2P_CAPS_INDEX_NVLINK = 2
REMAPPED_ROWS = ("correctable", "uncorrectable", "pending", "failure")


def values(pynvml: Any, handle: Any, cpus: int, ask: Ask) -> dict[str, Any]:
    """Return every field of one device that needs no other device."""
    found = {name: ask(partial(_call, pynvml, function, handle)) for name, function in SIMPLE.items()}
    for name, (function, part) in PARTS.items():
        found[name] = ask(partial(_part, pynvml, function, handle, part))
    for name, (function, *codes) in CODED.items():
        found[name] = ask(partial(_call, pynvml, function, handle, *codes))
    for name, field_id in FIELD_VALUES.items():
        found[name] = ask(partial(_field_value, pynvml, handle, field_id))
    found["remapped_rows"] = ask(partial(_remapped_rows, pynvml, handle))
    found["cpu_affinity"] = ask(partial(_cpus, pynvml, handle, cpus))
    found["processes"] = ask(partial(_processes, pynvml, handle, ask))
    return found


def _call(pynvml: Any, function: str, *arguments: Any) -> Any:
    return getattr(pynvml, function)(*arguments)


def _part(pynvml: Any, function: str, handle: Any, part: str | int) -> Any:
    answer = getattr(pynvml, function)(handle)
    return answer[part] if isinstance(part, int) else getattr(answer, part)


def _field_value(pynvml: Any, handle: Any, field_id: int) -> Any:
    value = pynvml.nvmlDeviceGetFieldValues(handle, [field_id])[0]
    if value.nvmlReturn != pynvml.NVML_SUCCESS:
        raise pynvml.NVMLError(value.nvmlReturn)
    return getattr(value.value, VALUE_TYPES[value.valueType])


def _remapped_rows(pynvml: Any, handle: Any) -> dict[str, int]:
    rows = pynvml.nvmlDeviceGetRemappedRows(handle)
    return {name: rows[place] for place, name in enumerate(REMAPPED_ROWS)}


def _cpus(pynvml: Any, handle: Any, cpus: int) -> list[int]:
    """Return the CPU indices that are set in NVML's array of 64-bit words."""
    words = pynvml.nvmlDeviceGetCpuAffinity(handle, (cpus + 63) // 64)
    return [64 * place + bit for place, word in enumerate(words) for bit in range(64) if word >> bit & 1]


def _processes(pynvml: Any, handle: Any, ask: Ask) -> list[dict[str, Any]]:
    processes = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    return [_process(pynvml, process, ask) for process in processes]


def _process(pynvml: Any, process: Any, ask: Ask) -> dict[str, Any]:
    return {
        "pid": process.pid,
        "used_bytes": process.usedGpuMemory,
        "name": ask(partial(pynvml.nvmlSystemGetProcessName, process.pid)),
        "cgroup": ask(partial(_cgroup, process.pid)),
    }


def _cgroup(pid: int) -> str:
    """Return the path of a process in the unified hierarchy, or in systemd's own of version 1."""
    with open("/proc/{}/cgroup".format(pid), encoding="utf-8", errors="replace") as lines:
        rows = [line.rstrip("\n").split(":", 2) for line in lines]
    return next((row[2] for row in rows if row[1] in ("", "name=systemd")), "")


def links(pynvml: Any, handle: Any, ask: Ask) -> list[dict[str, Any]]:
    """Return the NVLinks of a device; ends at the first link that the board does not have."""
    found: list[dict[str, Any]] = []
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        state = ask(partial(pynvml.nvmlDeviceGetNvLinkState, handle, link))
        if isinstance(state, dict) and state["error"] in ("NOT_SUPPORTED", "INVALID_ARGUMENT"):
            break
        found.append({"link": link, "state": state, **_link(pynvml, handle, link, ask)})
        if isinstance(state, dict):
            break  # a lost GPU says the same of all its links
    return found


def _link(pynvml: Any, handle: Any, link: int, ask: Ask) -> dict[str, Any]:
    return {
        "version": ask(partial(pynvml.nvmlDeviceGetNvLinkVersion, handle, link)),
        "remote_type": ask(partial(pynvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link)),
        "remote_bus_id": ask(partial(_remote_bus_id, pynvml, handle, link)),
    }


def _remote_bus_id(pynvml: Any, handle: Any, link: int) -> Any:
    return pynvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link).busId


def p2p_nvlink(pynvml: Any, handle: Any, peers: dict[int, Any], ask: Ask) -> dict[str, Any]:
    """Return NVML's peer-to-peer status over NVLink with each other device."""
    status = pynvml.nvmlDeviceGetP2PStatus
    return {str(peer): ask(partial(status, handle, other, P2P_CAPS_INDEX_NVLINK)) for peer, other in peers.items()}


def topology_ancestor(pynvml: Any, handle: Any, peers: dict[int, Any], ask: Ask) -> dict[str, Any]:
    """Return NVML's topology level of the common ancestor with each other device."""
    ancestor = pynvml.nvmlDeviceGetTopologyCommonAncestor
    return {str(peer): ask(partial(ancestor, handle, other)) for peer, other in peers.items()}


def mig_devices(pynvml: Any, handle: Any, ask: Ask) -> Any:
    """Return the MIG devices of a GPU in NVML's order; an error where the GPU has no MIG."""
    most = ask(partial(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle))
    if isinstance(most, dict):
        return most
    found = (_mig_device(pynvml, handle, index, ask) for index in range(most))
    return [device for device in found if device is not None]


def _mig_device(pynvml: Any, handle: Any, index: int, ask: Ask) -> dict[str, Any] | None:
    """Return one MIG device, None where there is none at this place, or MIG mode is off."""
    try:
        device = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
    except pynvml.NVMLError as error:
        if error.value in (pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_NOT_SUPPORTED):
            return None
        return {"index": index, "error": str(error)}
    return {
        "index": index,
        "uuid": ask(partial(pynvml.nvmlDeviceGetUUID, device)),
        "name": ask(partial(pynvml.nvmlDeviceGetName, device)),
        "gi_id": ask(partial(pynvml.nvmlDeviceGetGpuInstanceId, device)),
        "ci_id": ask(partial(pynvml.nvmlDeviceGetComputeInstanceId, device)),
        "memory_total_bytes": ask(partial(_part, pynvml, "nvmlDeviceGetMemoryInfo", device, "total")),
    }

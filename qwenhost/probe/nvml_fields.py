"""Which NVML functions give which field. Numbers are NVML's own, with its units in the field's name."""

from __future__ import annotations

import ctypes
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
    "temperature_margin_celsius": "nvmlDeviceGetMarginTemperature",
    "virtualization_mode": "nvmlDeviceGetVirtualizationMode",
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
    "clock_graphics_mhz": ("nvmlDeviceGetClockInfo", 0),
    "clock_application_graphics_mhz": ("nvmlDeviceGetApplicationsClock", 0),
    "clock_default_application_graphics_mhz": ("nvmlDeviceGetDefaultApplicationsClock", 0),
    "ecc_uncorrected_volatile": ("nvmlDeviceGetTotalEccErrors", 1, 0),
    "ecc_uncorrected_aggregate": ("nvmlDeviceGetTotalEccErrors", 1, 1),
}
"""Field -> function and NVML's codes for its further arguments."""

FIELD_VALUES = {
    "temperature_memory_celsius": 82,  # NVML_FI_DEV_MEMORY_TEMP
    "recovery_action": 230,  # NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
    "temperature_tlimit_slowdown_celsius": 194,  # NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT
    "temperature_tlimit_gpu_max_celsius": 196,  # NVML_FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT
    "retired_pages_corrected": 29,  # NVML_FI_DEV_RETIRED_SBE
    "retired_pages_uncorrected": 30,  # NVML_FI_DEV_RETIRED_DBE
    "retired_pages_pending": 31,  # NVML_FI_DEV_RETIRED_PENDING
    "nvlink_crc_flit_errors": 38,  # NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL
    "nvlink_crc_data_errors": 45,  # NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL
    "nvlink_replay_errors": 52,  # NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL
    "nvlink_recovery_errors": 59,  # NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL
}
"""Field -> id of an NVML field value. The NVLink fields are sums over all links of the GPU."""

VALUE_TYPES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Members of nvmlValue_t in the order of NVML_VALUE_TYPE_*."""

P2P_CAPS_INDEX_NVLINK = 2
LINK_ERRORS = ("replay", "recovery", "crc_flit", "crc_data")
"""In the order of NVML_NVLINK_ERROR_DL_*."""

SPARES = ("max", "high", "partial", "low", "none")
"""How many spare rows a memory bank has left: members of nvmlRowRemapperHistogramValues_t."""

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
    found["row_remapper_banks"] = ask(partial(_banks, pynvml, handle))
    found["sram_errors"] = ask(partial(_sram_errors, pynvml, handle))
    found["inforom_valid"] = ask(partial(_inforom_valid, pynvml, handle))
    found["memory_reserved_bytes"] = ask(partial(_reserved, pynvml, handle))
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


def _banks(pynvml: Any, handle: Any) -> dict[str, int]:
    histogram = pynvml.nvmlDeviceGetRowRemapperHistogram(handle)
    return {name: getattr(histogram, name) for name in SPARES}


def _sram_errors(pynvml: Any, handle: Any) -> dict[str, int]:
    status = pynvml.c_nvmlEccSramErrorStatus_v1_t()
    pynvml.nvmlDeviceGetSramEccErrorStatus(handle, ctypes.byref(status))
    return {
        "threshold_exceeded": status.bThresholdExceeded,
        "uncorrected_volatile": status.volatileUncParity + status.volatileUncSecDed,
        "uncorrected_aggregate": status.aggregateUncParity + status.aggregateUncSecDed,
    }


def _inforom_valid(pynvml: Any, handle: Any) -> bool:
    """Return true when all checksums are right; a wrong one is the error CORRUPTED_INFOROM."""
    pynvml.nvmlDeviceValidateInforom(handle)
    return True


def _reserved(pynvml: Any, handle: Any) -> Any:
    """Return what the driver keeps for itself, which the older query counts as used."""
    return pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2).reserved


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


def link_errors(pynvml: Any, handle: Any, links: list[dict[str, Any]], ask: Ask) -> dict[str, Any]:
    """Return the error counters of each link: {"0": {"replay": 0, ...}}."""
    count = pynvml.nvmlDeviceGetNvLinkErrorCounter
    return {
        str(link["link"]): {
            name: ask(partial(count, handle, link["link"], kind)) for kind, name in enumerate(LINK_ERRORS)
        }
        for link in links
        if link["state"] == 1
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

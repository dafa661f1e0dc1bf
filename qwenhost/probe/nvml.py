"""Read NVML as JSON: each value as the driver gave it, or the name of NVML's error in its place."""

from __future__ import annotations

import ctypes
import json
import os
from functools import partial
from typing import Any, Callable

from qwenhost.probe import nvml_fields

RUNTIME_ERRORS = (AttributeError, TypeError, ValueError, OSError)


def read_nvml(source: dict[str, Any]) -> dict[str, Any]:
    """Return the answer as the JSON text {"system": {...}, "init": name, "devices": [...]}."""
    try:
        import pynvml
    except ImportError as error:
        return {"text": "", "status": "failed", "error": "pynvml cannot be imported: {}".format(error)}
    names = error_names(pynvml)
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return _not_started(names.get(error.value, str(error.value)))
    answer = {"system": _system(pynvml, names), "init": "SUCCESS", "devices": _devices(pynvml, names)}
    return {"text": json.dumps(answer), "status": "ok", "error": ""}


def error_names(pynvml: Any) -> dict[int, str]:
    """Return NVML's error numbers with their names, such as {3: "NOT_SUPPORTED"}."""
    prefix = "NVML_ERROR_"
    return {getattr(pynvml, name): name[len(prefix) :] for name in dir(pynvml) if name.startswith(prefix)}


def _not_started(name: str) -> dict[str, Any]:
    text = json.dumps({"system": {}, "init": name, "devices": []})
    status = "missing" if name == "LIBRARY_NOT_FOUND" else "failed"
    return {"text": text, "status": status, "error": "nvmlInit: " + name}


def _system(pynvml: Any, names: dict[int, str]) -> dict[str, Any]:
    return {
        "driver_version": value_of(pynvml, names, pynvml.nvmlSystemGetDriverVersion),
        "nvml_version": value_of(pynvml, names, pynvml.nvmlSystemGetNVMLVersion),
        "cuda_driver_version": value_of(pynvml, names, pynvml.nvmlSystemGetCudaDriverVersion_v2),
    }


def _devices(pynvml: Any, names: dict[int, str]) -> list[dict[str, Any]]:
    count = value_of(pynvml, names, pynvml.nvmlDeviceGetCount)
    if isinstance(count, dict):
        return [count]
    handles = [_handle(pynvml, names, index) for index in range(count)]
    return [_device(pynvml, names, index, handles) for index in range(count)]


def _handle(pynvml: Any, names: dict[int, str], index: int) -> Any:
    """Return the handle, or {"error": ...} for a device that has none."""
    try:
        return pynvml.nvmlDeviceGetHandleByIndex(index)
    except pynvml.NVMLError as error:
        return {"error": names.get(error.value, str(error.value))}


def _device(pynvml: Any, names: dict[int, str], index: int, handles: list[Any]) -> dict[str, Any]:
    handle = handles[index]
    if isinstance(handle, dict):
        return {"index": index, **handle}
    ask = partial(value_of, pynvml, names)
    values = nvml_fields.values(pynvml, handle, os.cpu_count() or 1, ask)
    links = nvml_fields.links(pynvml, handle, ask)
    peers = {peer: other for peer, other in enumerate(handles) if peer != index and not isinstance(other, dict)}
    return {
        "index": index,
        **values,
        "nvlink": links,
        "nvlink_errors": nvml_fields.link_errors(pynvml, handle, links, ask) if _erring(values) else {},
        "p2p_nvlink": nvml_fields.p2p_nvlink(pynvml, handle, peers, ask),
        "topology_ancestor": nvml_fields.topology_ancestor(pynvml, handle, peers, ask),
        "mig_devices": nvml_fields.mig_devices(pynvml, handle, ask),
    }


def _erring(values: dict[str, Any]) -> bool:
    """Tell whether any sum over the links says that single links are worth the many calls."""
    sums = [values["nvlink_{}_errors".format(name)] for name in nvml_fields.LINK_ERRORS]
    return any(isinstance(count, int) and count > 0 for count in sums)


def value_of(pynvml: Any, names: dict[int, str], call: Callable[[], Any]) -> Any:
    """Return what `call` returns in a JSON type, or {"error": name}."""
    try:
        return plain(call())
    except pynvml.NVMLError as error:
        return {"error": names.get(error.value, str(error.value))}
    except RUNTIME_ERRORS as error:
        return {"error": "{}: {}".format(type(error).__name__, error)}


def plain(value: Any) -> Any:
    """Return bytes as text and C values as numbers; others as they are."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, ctypes._SimpleCData):
        return value.value
    return value

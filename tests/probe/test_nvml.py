"""NVML as JSON, against a library that answers as the driver does."""

from __future__ import annotations

import json
import os
import types
from typing import Any

import pytest

from qwenhost.probe import nvml


class NVMLError(Exception):
    """As pynvml's."""

    def __init__(self, value: int) -> None:
        super().__init__(f"NVML error {value}")
        self.value = value


NOT_SUPPORTED, NOT_FOUND, LOST, DRIVER_NOT_LOADED = 3, 6, 15, 9


class Library:
    """Two devices: the first answers a few questions, the second is lost; all else is not supported."""

    NVML_SUCCESS = 0
    NVML_ERROR_NOT_SUPPORTED = NOT_SUPPORTED
    NVML_ERROR_NOT_FOUND = NOT_FOUND
    NVML_ERROR_GPU_IS_LOST = LOST
    NVML_ERROR_DRIVER_NOT_LOADED = DRIVER_NOT_LOADED
    NVML_NVLINK_MAX_LINKS = 18
    NVMLError = NVMLError

    def __init__(self) -> None:
        self.init_error = 0

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml"):
            raise AttributeError(name)

        def unsupported(handle: Any = None, *rest: Any) -> Any:
            raise NVMLError(LOST if handle == "lost" else NOT_SUPPORTED)

        return unsupported

    def nvmlInit(self) -> None:
        if self.init_error:
            raise NVMLError(self.init_error)

    def nvmlSystemGetDriverVersion(self) -> str:
        return "580.95.05"

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        return ("sound", "lost")[index]

    def nvmlDeviceGetName(self, handle: str) -> bytes:
        return self._of(handle, b"NVIDIA A100-SXM4-80GB")

    def nvmlDeviceGetMigMode(self, handle: str) -> list[int]:
        return self._of(handle, [1, 0])

    def nvmlDeviceGetNvLinkState(self, handle: str, link: int) -> int:
        if link >= 12:
            raise NVMLError(NOT_SUPPORTED)
        return self._of(handle, int(link != 5))

    def nvmlDeviceGetCpuAffinity(self, handle: str, words: int) -> list[int]:
        return self._of(handle, [0b1010] + [0] * (words - 1))

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: str) -> int:
        return self._of(handle, 7)

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: str, index: int) -> str:
        if index != 1:
            raise NVMLError(NOT_FOUND)
        return "mig"

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[Any]:
        return self._of(handle, [types.SimpleNamespace(pid=os.getpid(), usedGpuMemory=None)])

    def nvmlDeviceGetUUID(self, handle: str) -> str:
        return self._of(handle, f"UUID-of-{handle}")

    def nvmlDeviceGetFieldValues(self, handle: str, ids: list[int]) -> list[Any]:
        value = types.SimpleNamespace(uiVal=51, sllVal=-1)
        known = ids == [82]
        return [types.SimpleNamespace(nvmlReturn=0 if known else NOT_SUPPORTED, valueType=1, value=value)]

    def _of(self, handle: str, value: Any) -> Any:
        if handle == "lost":
            raise NVMLError(LOST)
        return value


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    """Put the library in pynvml's place."""
    library = Library()
    monkeypatch.setitem(__import__("sys").modules, "pynvml", library)
    return library


def read() -> dict[str, Any]:
    """Return the parsed answer."""
    answer: dict[str, Any] = json.loads(nvml.read_nvml({})["text"])
    return answer


def test_values_and_error_names(library: Library) -> None:
    answer = read()
    assert answer["init"] == "SUCCESS"
    assert answer["system"]["driver_version"] == "580.95.05"
    assert answer["system"]["nvml_version"] == {"error": "NOT_SUPPORTED"}
    sound = answer["devices"][0]
    assert sound["index"] == 0
    assert sound["name"] == "NVIDIA A100-SXM4-80GB"
    assert (sound["mig_mode_current"], sound["mig_mode_pending"]) == (1, 0)
    assert sound["temperature_memory_celsius"] == 51
    assert sound["recovery_action"] == {"error": "NOT_SUPPORTED"}
    assert sound["cpu_affinity"] == [1, 3]
    assert sound["serial"] == {"error": "NOT_SUPPORTED"}


def test_processes_have_their_control_group(library: Library) -> None:
    (process,) = read()["devices"][0]["processes"]
    assert (process["pid"], process["used_bytes"], process["name"]) == (
        os.getpid(),
        None,
        {"error": "NOT_SUPPORTED"},
    )
    assert process["cgroup"].startswith("/")


def test_links_end_where_the_board_has_no_more(library: Library) -> None:
    links = read()["devices"][0]["nvlink"]
    assert [link["link"] for link in links] == list(range(12))
    assert [link["link"] for link in links if link["state"] == 0] == [5]


def test_mig_devices_keep_their_place(library: Library) -> None:
    assert [(found["index"], found["uuid"]) for found in read()["devices"][0]["mig_devices"]] == [
        (1, "UUID-of-mig")
    ]


def test_a_gpu_without_mig_mode_has_no_mig_devices(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(handle: str, index: int) -> str:
        raise NVMLError(NOT_SUPPORTED)

    monkeypatch.setattr(library, "nvmlDeviceGetMigDeviceHandleByIndex", refuse, raising=False)
    assert read()["devices"][0]["mig_devices"] == []


def test_a_lost_gpu_says_so_in_every_field(library: Library) -> None:
    lost = read()["devices"][1]
    fields = {name: value for name, value in lost.items() if name in ("name", "uuid", "mig_mode_current")}
    assert set(map(str, fields.values())) == {"{'error': 'GPU_IS_LOST'}"}
    assert lost["nvlink"][0]["state"] == {"error": "GPU_IS_LOST"}
    assert lost["mig_devices"] == {"error": "GPU_IS_LOST"}


def test_a_driver_that_is_not_loaded_is_no_answer(library: Library) -> None:
    library.init_error = DRIVER_NOT_LOADED
    answer = nvml.read_nvml({})
    assert (answer["status"], answer["error"]) == ("failed", "nvmlInit: DRIVER_NOT_LOADED")


def test_every_function_is_one_that_pynvml_has() -> None:
    """A misspelt name would look like a driver that lacks the function."""
    pynvml = pytest.importorskip("pynvml")
    from qwenhost.probe import nvml_fields as fields

    names = [*fields.SIMPLE.values(), *(each[0] for each in (*fields.PARTS.values(), *fields.CODED.values()))]
    assert [name for name in names if not hasattr(pynvml, name)] == []
    assert fields.FIELD_VALUES == {
        "temperature_memory_celsius": pynvml.NVML_FI_DEV_MEMORY_TEMP,
        "recovery_action": pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION,
        "temperature_tlimit_slowdown_celsius": pynvml.NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT,
        "temperature_tlimit_gpu_max_celsius": pynvml.NVML_FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT,
        "retired_pages_corrected": pynvml.NVML_FI_DEV_RETIRED_SBE,
        "retired_pages_uncorrected": pynvml.NVML_FI_DEV_RETIRED_DBE,
        "retired_pages_pending": pynvml.NVML_FI_DEV_RETIRED_PENDING,
        "nvlink_crc_flit_errors": pynvml.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL,
        "nvlink_crc_data_errors": pynvml.NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL,
        "nvlink_replay_errors": pynvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL,
        "nvlink_recovery_errors": pynvml.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL,
    }
    for place, name in enumerate(("REPLAY", "RECOVERY", "CRC_FLIT", "CRC_DATA")):
        assert fields.LINK_ERRORS[place] == name.lower()
        assert getattr(pynvml, f"NVML_NVLINK_ERROR_DL_{name}") == place
    assert tuple(name for name, _ in pynvml.c_nvmlRowRemapperHistogramValues._fields_) == fields.SPARES
    assert pynvml.NVML_P2P_CAPS_INDEX_NVLINK == fields.P2P_CAPS_INDEX_NVLINK


def test_only_reading_functions_are_called() -> None:
    """NVML can change a GPU as well."""
    from qwenhost.probe import nvml_fields as fields

    names = [*fields.SIMPLE.values(), *(each[0] for each in (*fields.PARTS.values(), *fields.CODED.values()))]
    assert all(name.startswith("nvmlDeviceGet") for name in names)

"""Values of a GPU that were renamed over the years, in each form; the values are made up."""

from __future__ import annotations

import json
import textwrap
from typing import Any

import pytest

from qwenhost.facts.gpus import Gpu
from qwenhost.facts.inforom import InforomWarnings, inforom_warnings
from qwenhost.facts.link_errors import COUNTERS, errors_from_listing, errors_from_nvml
from qwenhost.facts.nvlink import links_from_nvml
from qwenhost.facts.replays import replays_from_nvml, replays_from_query, replays_from_xml
from qwenhost.facts.smi.nvml import gpus_from_nvml
from qwenhost.facts.smi.query import gpus_from_query
from qwenhost.facts.smi.table import gpus_from_table
from qwenhost.facts.smi.xml import gpus_from_xml
from qwenhost.facts.uptime import UPTIME, uptime, uptime_told
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable


def ok(text: str) -> Capture:
    return Capture("test", "ok", text)


def query(sections: str) -> Gpu:
    """Return the GPU of a listing with these sections."""
    body = textwrap.indent(textwrap.dedent(sections), "    ")
    (gpu,) = gpus_from_query(ok(f"Attached GPUs : 1\nGPU 00000000:4E:00.0\n{body}\n")).gpus
    return gpu


def xml(elements: str) -> Gpu:
    text = f"<nvidia_smi_log><gpu id='00000000:4E:00.0'>{elements}</gpu></nvidia_smi_log>"
    (gpu,) = gpus_from_xml(ok(text)).gpus
    return gpu


def nvml(**fields: Any) -> Gpu:
    device = {"index": 0, "bus_id": "00000000:4E:00.0", **fields}
    (gpu,) = gpus_from_nvml(ok(json.dumps({"init": "SUCCESS", "devices": [device]}))).gpus
    return gpu


SPARES = [
    query("""\
        Remapped Rows
            Pending                    : No
            Bank Remap Availability Histogram
                Max                    : 637 bank(s)
                Low                    : 2 bank(s)
                None                   : 1 bank(s)
        """),
    xml(
        "<remapped_rows><remapped_row_pending>No</remapped_row_pending><row_remapper_histogram>"
        "<row_remapper_histogram_low>2 bank(s)</row_remapper_histogram_low>"
        "<row_remapper_histogram_none>1 bank(s)</row_remapper_histogram_none>"
        "</row_remapper_histogram></remapped_rows>"
    ),
    nvml(remapped_rows={"pending": 0, "failure": 0}, row_remapper_banks={"max": 637, "low": 2, "none": 1}),
]


@pytest.mark.parametrize("gpu", SPARES, ids=["text", "xml", "nvml"])
def test_spare_rows(gpu: Gpu) -> None:
    assert (gpu.banks_low_on_spares, gpu.banks_without_spare) == (2, 1)
    assert (gpu.remaps_rows, gpu.remap_pending) == (True, False)


WITHOUT = [
    query("Remapped Rows                 : N/A"),
    xml("<remapped_rows>N/A</remapped_rows>"),
    nvml(remapped_rows={"error": "NOT_SUPPORTED"}),
]


@pytest.mark.parametrize("gpu", WITHOUT, ids=["text", "xml", "nvml"])
def test_boards_without_spare_rows_say_so(gpu: Gpu) -> None:
    assert (gpu.remaps_rows, gpu.remap_pending, gpu.banks_without_spare) == (False, None, None)


def test_what_was_not_asked_is_not_seen() -> None:
    assert [gpu.remaps_rows for gpu in (query("Fan Speed : N/A"), xml(""), nvml())] == [None] * 3
    assert nvml(remapped_rows={"error": "NO_PERMISSION"}).remaps_rows is None


ECC = [
    query("""\
        Ecc Mode
            Current                    : Enabled
            Pending                    : Disabled
        ECC Errors
            Aggregate
                SRAM Threshold Exceeded : Yes
        """),
    xml(
        "<ecc_mode><current_ecc>Enabled</current_ecc><pending_ecc>Disabled</pending_ecc></ecc_mode>"
        "<ecc_errors><aggregate><sram_threshold_exceeded>Yes</sram_threshold_exceeded></aggregate></ecc_errors>"
    ),
    nvml(ecc_mode_current=1, ecc_mode_pending=0, sram_errors={"threshold_exceeded": 1}),
]


@pytest.mark.parametrize("gpu", ECC, ids=["text", "xml", "nvml"])
def test_ecc(gpu: Gpu) -> None:
    assert (gpu.ecc, gpu.ecc_pending, gpu.sram_threshold_exceeded) == (True, False, True)


UNCORRECTED = [
    query("""\
        ECC Errors
            Volatile
                Single Bit
                    Device Memory      : 5
                    Total              : 5
                Double Bit
                    Device Memory      : 2
                    L2 Cache           : 1
                    Total              : 3
            Aggregate
                Double Bit
                    Total              : 4
        """),
    query("""\
        ECC Errors
            Volatile
                SRAM Correctable       : 5
                SRAM Uncorrectable     : 1
                DRAM Uncorrectable     : 2
            Aggregate
                SRAM Uncorrectable Parity  : 1
                SRAM Uncorrectable SEC-DED : 1
                DRAM Uncorrectable     : 2
                SRAM Threshold Exceeded : No
        """),
    xml(
        "<ecc_errors><volatile><double_bit><device_memory>2</device_memory><total>3</total></double_bit></volatile>"
        "<aggregate><double_bit><total>4</total></double_bit></aggregate></ecc_errors>"
    ),
    nvml(ecc_uncorrected_volatile=3, ecc_uncorrected_aggregate=4),
]


@pytest.mark.parametrize("gpu", UNCORRECTED, ids=["before turing", "turing and later", "xml", "nvml"])
def test_uncorrected_errors(gpu: Gpu) -> None:
    assert (gpu.ecc_uncorrected_volatile, gpu.ecc_uncorrected_aggregate) == (3, 4)


MARGINS = [
    query("""\
        Temperature
            GPU Current Temp                : 38 C
            GPU T.Limit Temp                : 49 C
            GPU Slowdown T.Limit Temp       : -2 C
            GPU Max Operating T.Limit Temp  : 0 C
            Memory Max Operating T.Limit Temp : 0 C
        """),
    query("""\
        Temperature
            GPU Current Temp                               : 38 C
            GPU Current T.Limit Temp                       : 49 C
            GPU Slowdown T.Limit Temp Specification        : -2 C
            GPU Max Operating T.Limit Temp Specification   : 0 C
            Memory Max Operating T.Limit Temp Specification: 0 C
        """),
    xml(
        "<temperature><gpu_temp>38 C</gpu_temp><gpu_temp_tlimit>49 C</gpu_temp_tlimit>"
        "<gpu_temp_slow_tlimit_threshold>-2 C</gpu_temp_slow_tlimit_threshold>"
        "<gpu_temp_max_gpu_tlimit_threshold>0 C</gpu_temp_max_gpu_tlimit_threshold></temperature>"
    ),
    nvml(
        temperature_gpu_celsius=38,
        temperature_margin_celsius=49,
        temperature_tlimit_slowdown_celsius=-2,
        temperature_tlimit_gpu_max_celsius=0,
    ),
]


@pytest.mark.parametrize("gpu", MARGINS, ids=["535", "610", "xml", "nvml"])
def test_degrees_left(gpu: Gpu) -> None:
    assert (gpu.temperature_celsius, gpu.margin_celsius) == (38, 49)
    assert (gpu.margin_slowdown_celsius, gpu.margin_max_celsius) == (-2, 0)
    assert (gpu.temperature_max_celsius, gpu.temperature_memory_max_celsius) == (None, None)


def test_power_and_clocks_of_old_and_new_drivers() -> None:
    old = query("""\
        Power Readings
            Enforced Power Limit       : 250.00 W
            Default Power Limit        : 300.00 W
        Clocks
            Graphics                   : 210 MHz
        Applications Clocks
            Graphics                   : 900 MHz
        Default Applications Clocks
            Graphics                   : 1155 MHz
        """)
    new = query("""\
        GPU Power Readings
            GPU Ceiling Power Limit
                Current Power Limit    : 250.00 W
                Default Power Limit    : 300.00 W
            GPU Base Power
                Current Base Power     : N/A
            Max Power Limit            : 300.00 W
        Clocks
            Graphics                   : 210 MHz
        Applications Clocks
            Graphics                   : Requested functionality has been deprecated
        """)
    assert (old.power_limit_watts, old.power_default_watts) == (250, 300)
    assert (new.power_limit_watts, new.power_default_watts) == (250, 300)
    assert (old.clock_graphics_mhz, old.clock_application_mhz, old.clock_default_mhz) == (210, 900, 1155)
    assert (new.clock_graphics_mhz, new.clock_application_mhz, new.clock_default_mhz) == (210, None, None)


def test_memory_in_use_is_told_without_what_the_driver_keeps() -> None:
    mib = 1 << 20
    kept = nvml(memory_used_bytes=900 * mib, memory_reserved_bytes=834 * mib)
    old = nvml(memory_used_bytes=900 * mib, memory_reserved_bytes={"error": "FUNCTION_NOT_FOUND"})
    assert (kept.memory_used_mib, kept.memory_reserved_mib, old.memory_used_mib) == (66, 834, None)


def test_the_table_counts_uncorrected_errors() -> None:
    rows = "| NVIDIA-SMI 580.95.05 |\n" + "\n".join(
        f"|   {index}  NVIDIA A100-SXM4-80GB          On  |   00000000:0{index}:00.0 Off |{cell:>21} |"
        for index, cell in enumerate(("3", "Off", "N/A"))
    )
    found = gpus_from_table(ok(rows)).gpus
    assert [gpu.ecc_uncorrected_volatile for gpu in found] == [3, None, None]
    assert [gpu.ecc for gpu in found] == [True, False, None]


@pytest.mark.parametrize(
    ("mode", "word", "virtual"),
    [(0, None, False), (1, "pass-through", True), ({"error": "NOT_SUPPORTED"}, None, False)],
)
def test_a_virtual_machine_is_told_by_nvml_too(mode: Any, word: str | None, virtual: bool) -> None:
    gpu = nvml(virtualization_mode=mode)
    assert (gpu.virtualization, gpu.virtual) == (word, virtual)


WARNING = "WARNING: infoROM is corrupted at gpu 0000:4E:00.0"


@pytest.mark.parametrize(
    "text",
    [
        f"{WARNING}\nGPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-a)\n",
        f"| NVIDIA-SMI 440.33.01    Driver Version: 440.33.01    CUDA Version: 10.2     |\n{WARNING}\n",
        f"<nvidia_smi_log></nvidia_smi_log>\n{WARNING}\n",
    ],
)
def test_inforom_warnings_stand_around_an_answer(text: str) -> None:
    assert inforom_warnings(ok(text)).lines == (("0000:4e:00.0", WARNING),)


def test_inforom_warnings_are_told_once_and_need_an_answer() -> None:
    one = InforomWarnings((("0000:4e:00.0", WARNING),))
    assert one.merge(one) == one
    with pytest.raises(Unparsable):
        inforom_warnings(ok("command not found"))


def test_inforom_by_nvml() -> None:
    wrong, hidden = (
        nvml(inforom_valid={"error": "CORRUPTED_INFOROM"}),
        nvml(inforom_valid={"error": "NO_PERMISSION"}),
    )
    assert [nvml(inforom_valid=True).inforom_valid, wrong.inforom_valid, hidden.inforom_valid] == [
        True,
        False,
        None,
    ]


THREE = """\
GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-a)
\t Link 0: Replay Errors: 7
\t Link 0: Recovery Errors: 0
\t Link 0: CRC Errors: 12

GPU 1: NVIDIA A100-SXM4-80GB (UUID: GPU-b)
\t Link 0: Replay Errors: 0
"""
RANGES = """\
GPU 0: Tesla V100-SXM2-32GB (UUID: GPU-a)
\t Link 0: Replay Errors: 7
\t Link 0: CRC Errors: 12
\t Links 1-5: No errors
GPU 1: Tesla V100-SXM2-32GB (UUID: GPU-b)
\t Links 0-5: No errors
"""


@pytest.mark.parametrize("text", [THREE, RANGES])
def test_link_counters(text: str) -> None:
    assert COUNTERS.recognises(text)
    found = errors_from_listing(ok(text))
    assert (found.asked, found.counts) == ((0, 1), {(0, 0): {"replay": 7, "crc": 12}})


def test_link_counters_of_driver_595() -> None:
    text = """\
GPU 0: NVIDIA H200 (UUID: GPU-a)
\t Link 3: Tx packets: 1234567
\t Link 3: Malformed packet Errors: 0
\t Link 3: Rx Errors: 4
\t Link 3: Link recovery successful events: 2
\t Link 3: Link recovery failed events: 1
\t Link 3: Symbol Errors: 99
\t Link 3: Effective BER: 15e-255
\t Link 3: FEC Errors - 0: 36140749276
"""
    assert COUNTERS.recognises(text)
    assert errors_from_listing(ok(text)).counts == {(0, 3): {"rx": 4, "link recovery failed events": 1}}


def test_link_counters_by_nvml() -> None:
    sums = {f"nvlink_{kind}_errors": 0 for kind in ("replay", "recovery", "crc_flit", "crc_data")}
    counters = {"2": {"replay": 9, "recovery": 0}, "3": {"replay": 0, "recovery": {"error": "NOT_SUPPORTED"}}}
    devices = [
        {"index": 0, "bus_id": "00000000:07:00.0", **sums, "nvlink_errors": {}},
        {"index": 1, "bus_id": "00000000:0B:00.0", **sums, "nvlink_replay_errors": 9, "nvlink_errors": counters},
    ]
    found = errors_from_nvml(ok(json.dumps({"init": "SUCCESS", "devices": devices})))
    assert (found.asked, found.counts) == ((0, 1), {(1, 2): {"replay": 9}})
    with pytest.raises(Unparsable):
        errors_from_nvml(ok(json.dumps({"init": "SUCCESS", "devices": [{"index": 0}]})))


def test_a_damaged_index_is_no_gpu() -> None:
    answer = {"init": "SUCCESS", "devices": [{"index": [], "nvlink": [{"link": 0, "state": 1}]}]}
    with pytest.raises(TypeError):
        links_from_nvml(ok(json.dumps(answer)))


def reading(minute: int, count: int) -> Capture:
    return ok(
        f"Timestamp                     : Tue Dec  1 03:{minute:02}:00 2026\n"
        "GPU 00000000:4E:00.0\n    PCI\n"
        f"        Replays Since Reset           : {count}\n"
    )


def test_two_readings_make_a_rate() -> None:
    one, two = replays_from_query(reading(10, 40)), replays_from_query(reading(20, 240))
    assert one.merge(two).per_minute("0000:4e:00.0") == 20
    assert two.merge(one).last() == {"0000:4e:00.0": 240}
    assert one.per_minute("0000:4e:00.0") is None
    restarted = replays_from_query(reading(30, 3))
    assert two.merge(restarted).per_minute("0000:4e:00.0") is None


def test_replays_of_the_other_forms() -> None:
    element = "<gpu id='00000000:4E:00.0'><pci><replay_counter>5</replay_counter></pci></gpu>"
    from_xml = replays_from_xml(ok(f"<nvidia_smi_log>{element}</nvidia_smi_log>"))
    answer = {"init": "SUCCESS", "devices": [{"bus_id": "00000000:4E:00.0", "pcie_replay_counter": 5}]}
    assert from_xml.last() == replays_from_nvml(ok(json.dumps(answer))).last() == {"0000:4e:00.0": 5}


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        (" 03:17:10 up 3 days,  4:05,  2 users,  load average: 0.00, 0.01, 0.05\n", 4565),
        (" 03:17:10 up 12 min,  1 user,  load average: 0.00, 0.01, 0.05\n", 12),
        (" 03:17:10 up 1 day, 7 min,  1 user,  load average: 0.00, 0.01, 0.05\n", 1447),
    ],
)
def test_uptime_as_the_command_tells_it(text: str, minutes: int) -> None:
    assert uptime_told(ok(text)).minutes == minutes


def test_uptime_of_the_kernel() -> None:
    assert UPTIME.recognises("7260.25 91000.00\n")
    assert uptime(ok("7260.25 91000.00\n")).minutes == pytest.approx(121, abs=0.1)

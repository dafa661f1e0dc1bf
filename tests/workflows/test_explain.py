"""What is told of a check comes from the check: its facts, its code and the data."""

from __future__ import annotations

from pathlib import Path

import pytest

from qwenhost.checks.declare import checks
from qwenhost.records.source import Source, command, file, http, tree
from qwenhost.reports.explanations import by_hand, explain_lines, markdown
from qwenhost.workflows.explain import explain, explained

PAGE = Path(__file__).parents[2] / "docs" / "checks.md"


def look_for(check: str, source: str) -> tuple[str, ...]:
    """Return where in a source the values of a check stand."""
    (found,) = (reading.look_for for reading in explain(check).readings if reading.source.name == source)
    return found


@pytest.mark.parametrize(
    ("check", "function", "place"),
    [
        ("pcie.link-width", "nvmlDeviceGetCurrPcieLinkWidth", "link width > current"),
        ("power.limit", "nvmlDeviceGetEnforcedPowerLimit", "current power limit"),
        ("memory.hbm-temperature", "nvmlDeviceGetFieldValues(82)", "memory current temp"),
        ("gpu.persistence", "nvmlDeviceGetPersistenceMode", "persistence mode"),
    ],
)
def test_values_of_a_gpu_are_found_in_nvml_and_in_nvidia_smi(check: str, function: str, place: str) -> None:
    assert function in look_for(check, "nvml")
    assert any(found.endswith(place) for found in look_for(check, "nvidia-smi-q"))


def test_figures_of_products_stand_with_the_products() -> None:
    (width,) = explain("pcie.link-width").thresholds
    assert width.name == "pcie_width"
    assert "a100-sxm4-80gb" in width.values["16"]


def test_what_is_declared_and_the_data_files_are_told() -> None:
    assert explain("host.hugepages").declared == ("hugepages",)
    assert "xids.yaml" in explain("gpu.xid").data
    assert explain("fleet.driver").thresholds == ()


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        (command("a", "nvidia-smi", "topo", "-m"), "nvidia-smi topo -m"),
        (command("a", "systemctl", "show", "vllm@*"), "systemctl show 'vllm@*'"),
        (file("a", "/proc/meminfo"), "cat /proc/meminfo"),
        (tree("a", "/sys/x/*/one", "/sys/x/*/two"), "grep -H . /sys/x/*/{one,two}"),
        (tree("a", "/proc/one", "/sys/two"), "grep -H . /proc/one /sys/two"),
        (tree("a", "/sys/x/*/one"), "grep -H . /sys/x/*/one"),
        (http("a", "http://127.0.0.1:8000/health"), "curl -s http://127.0.0.1:8000/health"),
    ],
)
def test_a_source_can_be_read_by_hand(source: Source, shown: str) -> None:
    assert by_hand(source) == shown


@pytest.mark.parametrize("check", checks())
def test_every_check_can_be_explained(check: str) -> None:
    rows = list(explain_lines(explain(check)))
    assert rows[0] == check
    assert any(row.startswith("remedy: ") for row in rows)
    assert any(row.startswith(("by hand:", "understands in files:", "held to:", "reads: ")) for row in rows)


def test_the_page_of_checks_is_up_to_date() -> None:
    made = markdown(explained(check) for check in checks().values())
    assert PAGE.read_text(encoding="utf-8") == made, "run: qwenhost checks --markdown > docs/checks.md"


def test_questions_of_the_smoke_test_are_explained() -> None:
    told = explain("smoke.burst")
    assert "at the same time" in told.why
    assert told.consequence_of == ("smoke.health",)

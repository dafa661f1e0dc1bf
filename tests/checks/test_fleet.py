"""The odd host among its peers, and the odd GPU of a host."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from qwenhost.checks.engine import examine
from qwenhost.records.bundle import Bundle
from qwenhost.records.desired import Expectations
from qwenhost.records.finding import Finding
from qwenhost.records.host import Host
from qwenhost.workflows import doctor
from qwenhost.workflows.peers import peers_of

from .conftest import added, edited, of, only, without

CHECKS = ("fleet.driver", "fleet.firmware", "fleet.hardware")
DMI = "/sys/class/dmi/id"
KERNEL = "6.8.0-60-generic"

Change = Callable[[Bundle], Bundle]


def named(bundle: Bundle, number: int) -> Bundle:
    """Return a host of the fleet, with what the healthy bundle lacks of a real host."""
    files = {f"{DMI}/product_name": "HGX", f"{DMI}/bios_version": "1.4"}
    bare = without(bundle, "dmi", "kernel-version")
    whole = added(added(bare, "dmi", json.dumps(files)), "kernel-version", f"Linux version {KERNEL} (x)\n")
    return replace(whole, host=f"gpu-{number}")


def told(bundle: Bundle, change: Change, want: Expectations, hosts: int = 4) -> dict[tuple[str, str], Finding]:
    """Change the last host of a fleet; return its findings of the fleet's checks that are not a pass."""
    fleet = [named(bundle, number) for number in range(hosts)]
    fleet[-1] = change(fleet[-1])
    odd, last = peers_of(fleet), fleet[-1]
    findings = examine(last, replace(want, peers=odd.get(last.host, {})))
    return {(f.check, f.subject): f for check in CHECKS for f in of(findings, check) if f.verdict.value != "pass"}


def same(bundle: Bundle) -> Bundle:
    """Change nothing."""
    return bundle


@pytest.mark.parametrize(
    ("source", "observed", "expected", "subject", "verdict"),
    [
        ("kernel-version", "6.5.0-9-generic", KERNEL, "kernel", "note"),
        ("dmi", "1.2", "1.4", "BIOS", "note"),
        ("dmi", "DGX", "HGX", "machine", "warn"),
    ],
)
def test_a_host_that_differs_is_told(
    healthy: Bundle, want: Expectations, source: str, observed: str, expected: str, subject: str, verdict: str
) -> None:
    ((_, where),) = found = told(healthy, lambda host: edited(host, (source, expected, observed)), want)
    (finding,) = found.values()
    assert where == subject
    assert (finding.verdict.value, finding.observed, finding.expected) == (verdict, observed, expected)
    assert finding.origin == "3 of 4 hosts of this run"


def test_a_driver_that_one_host_has_is_a_warning(healthy: Bundle, want: Expectations) -> None:
    version = healthy.of("proc-driver-nvidia-version")[0].text.split("Kernel Module")[1].split()
    number = next(word for word in version if word[0].isdigit())
    found = told(healthy, lambda host: edited(host, ("proc-driver-nvidia-version", number, "570.86.15")), want)
    finding = found["fleet.driver", "driver version"]
    assert (finding.verdict.value, finding.observed, finding.expected) == ("warn", "570.86.15", number)


def test_hosts_that_are_alike_are_not_told(healthy: Bundle, want: Expectations) -> None:
    assert told(healthy, same, want) == {}


def test_two_hosts_are_no_fleet(healthy: Bundle, want: Expectations) -> None:
    found = told(healthy, lambda host: edited(host, ("dmi", "HGX", "DGX")), want, hosts=2)
    assert {(check, finding.verdict.value) for (check, _), finding in found.items()} == {
        (check, "skip") for check in CHECKS
    }


def test_hosts_of_another_product_are_named_and_not_compared(healthy: Bundle) -> None:
    other = only(edited(named(healthy, 9), ("pci", "0x20b2", "0x20b0"), ("dmi", "HGX", "DGX")), "pci", "dmi")
    peers = peers_of([*(named(healthy, number) for number in range(3)), other])
    assert peers["gpu-0"]["GPU count"].value == "8"
    assert set(peers["gpu-9"]) == {"GPU product"}
    found = {f.subject: f for f in of(examine(other, Expectations(peers=peers["gpu-9"])), "fleet.hardware")}
    assert found["machine"].verdict.value == "skip"
    product = found["GPU product"]
    assert (product.verdict.value, product.observed) == ("note", "NVIDIA A100-SXM4-40GB")
    assert product.expected == "NVIDIA A100-SXM4-80GB"


def test_a_host_whose_driver_is_silent_is_a_consequence_or_silent(healthy: Bundle, want: Expectations) -> None:
    def silent(host: Bundle) -> Bundle:
        return without(host, *(item.source for item in host.captures if item.source.startswith("nv")))

    found = told(healthy, silent, want)
    assert not [finding for finding in found.values() if finding.verdict.value in ("warn", "fail")]


def odd_gpus(bundle: Bundle, want: Expectations) -> dict[str, str]:
    """Return the GPUs that are not like the others, with what was seen."""
    findings = of(examine(bundle, want), "gpu.uniform")
    return {finding.subject[:4]: finding.observed for finding in findings if finding.verdict.value == "warn"}


def changed(bundle: Bundle, numbers: list[int], **values: int) -> Bundle:
    """Change NVML's values of some GPUs; nvidia-smi is left out."""
    text = json.loads(bundle.of("nvml")[0].text)
    for number in numbers:
        text["devices"][number].update(values)
    bare = without(bundle, "nvml", "nvidia-smi-q", "nvidia-smi")
    return added(bare, "nvml", json.dumps(text))


@pytest.mark.parametrize(
    ("numbers", "values", "odd"),
    [
        ([], {}, {}),
        ([3], {"power_limit_default_milliwatts": 300_000}, {"gpu3": "default power limit 300 W"}),
        ([2, 5], {"link_width_current": 8, "link_width_max": 8}, {"gpu2": "lanes x8", "gpu5": "lanes x8"}),
        ([0], {"memory_total_bytes": 40 << 30}, {"gpu0": "memory 40960 MiB"}),
        ([0, 1, 2, 3], {"link_width_current": 8}, {}),
        ([0, 1, 2, 3, 4, 5, 6, 7], {"link_width_current": 8}, {}),
    ],
)
def test_a_gpu_is_held_against_the_others(
    healthy: Bundle, numbers: list[int], values: dict[str, int], odd: dict[str, str]
) -> None:
    assert odd_gpus(changed(healthy, numbers, **values), Expectations()) == odd


def test_what_another_check_holds_against_a_figure_is_told_there(healthy: Bundle, want: Expectations) -> None:
    narrow = changed(healthy, [2], link_width_current=8, power_limit_enforced_milliwatts=300_000)
    assert odd_gpus(narrow, want) == {}
    assert {f.check for f in examine(narrow, want) if f.verdict.value in ("warn", "fail")} == {
        "pcie.link-width",
        "power.limit",
    }


def test_one_host_that_cannot_be_judged_does_not_end_the_run(
    healthy: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(host: Host, *_: object) -> Bundle:
        return replace(healthy, host=host.name)

    def judge(bundle: Bundle, *_: object) -> tuple[Finding, ...]:
        if bundle.host == "gpu-2":
            raise RecursionError("too deep")
        return examine(bundle, Expectations())

    monkeypatch.setattr(doctor, "_fetch", fetch)
    monkeypatch.setattr(doctor, "examine", judge)
    reports = doctor.examine_hosts([Host(f"gpu-{number}") for number in range(1, 4)])
    assert [(report.host, bool(report.findings)) for report in reports] == [
        ("gpu-1", True), ("gpu-2", False), ("gpu-3", True),
    ]  # fmt: skip
    assert reports[1].error == "gpu-2: internal error: RecursionError: too deep"
    with pytest.raises(RecursionError):
        doctor.examine_hosts([Host("gpu-2")])

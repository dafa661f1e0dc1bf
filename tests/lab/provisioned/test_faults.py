"""Every fault: the right check within the time limit; provision stops or repairs; all well after it is cleared."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from qwenhost.lab.simulator import faults
from tests.lab.commands import alarms, changes
from tests.lab.provisioned.conftest import LAB, Provisioned

LIMIT_SECONDS = 15.0
HOST = "lab1"


@dataclass(frozen=True)
class Expected:
    """The check that has to name the fault, a part of its subject, and the kind of its remedy."""

    check: str
    subject: str
    remedy: str


EXPECTED = {
    "link-x8": Expected("pcie.link-width", "gpu3", "hardware"),
    "nvlink-down": Expected("nvlink.links", "gpu2", "hardware"),
    "gpu-missing": Expected("gpu.count", "host", "hardware"),
    "gpu-lost": Expected("gpu.on-bus", "gpu", "hardware"),
    "fabricmanager-version": Expected("fabric.version", "host", "hand"),
    "fabricmanager-stopped": Expected("fabric.running", "host", "hand"),
    "vbios-odd": Expected("firmware.uniform", "20b2", "firmware"),
    "driver-mismatch": Expected("driver.versions-agree", "host", "reboot"),
    "xid-79": Expected("gpu.on-bus", "gpu", "hardware"),
    "xid-119": Expected("gpu.gsp", "gpu", "hand"),
    "row-remap-pending": Expected("memory.row-remap-pending", "gpu1", "hand"),
    "hbm-hot": Expected("memory.hbm-temperature", "gpu", "hardware"),
    "power-brake": Expected("power.brake", "gpu", "hardware"),
    "driver-hang": Expected("driver.present", "host", "reboot"),
}

HARMLESS = {"gpu-held"}
"""A process on a GPU is no fault of the host; it only keeps MIG from being switched."""


def test_every_kind_of_fault_has_an_expectation() -> None:
    assert set(EXPECTED) | HARMLESS == set(faults.KINDS)


@pytest.fixture
def broken(provisioned: Provisioned, request: pytest.FixtureRequest) -> Iterator[str]:
    kind: str = request.param
    done = provisioned.qwenhost("lab", "fault", HOST, kind, "--name", LAB.name)
    assert done.code == 0, done.messages
    yield kind
    cleared = provisioned.qwenhost("lab", "fault", HOST, "--clear", "--name", LAB.name)
    assert cleared.code == 0, cleared.messages


@pytest.mark.parametrize("broken", sorted(EXPECTED), indirect=True)
def test_doctor_names_the_fault_and_provision_touches_nothing(provisioned: Provisioned, broken: str) -> None:
    expected = EXPECTED[broken]
    started = time.monotonic()
    done, findings = provisioned.doctor(HOST)
    assert time.monotonic() - started < LIMIT_SECONDS
    assert expected.check in alarms(findings), f"{broken}: {alarms(findings)}"
    named = [f for f in findings if f["check"] == expected.check and f["verdict"] in ("fail", "warn")]
    assert any(expected.subject in finding["subject"] for finding in named), named
    assert named[0]["remedy"]["kind"] == expected.remedy, named[0]["remedy"]
    stopped = provisioned.provision("--limit", HOST)
    assert changes(stopped)[HOST] == []
    assert stopped.code == done.code


@pytest.mark.parametrize("broken", ["driver-hang"], indirect=True)
def test_a_driver_that_hangs_is_one_finding_and_the_rest_is_unknown(provisioned: Provisioned, broken: str) -> None:
    done, findings = provisioned.doctor(HOST)
    assert done.code == 1
    assert set(alarms(findings)) == {"driver.present"}
    verdicts = {finding["check"]: finding["verdict"] for finding in findings}
    assert {verdicts[check] for check in ("gpu.persistence", "nvlink.links", "firmware.vbios")} == {"unknown"}


def test_all_is_well_when_every_fault_is_cleared(provisioned: Provisioned) -> None:
    done, findings = provisioned.doctor(HOST)
    assert alarms(findings) == {}
    assert done.code == 0


def test_one_narrow_link_stops_its_host_and_the_other_goes_on(provisioned: Provisioned) -> None:
    provisioned.qwenhost("lab", "fault", HOST, "link-x8", "--name", LAB.name)
    for host in ("lab1", "lab2"):
        provisioned.on(host, "sysctl -qw net.ipv4.tcp_mtu_probing=0")
    try:
        done = provisioned.provision()
        assert done.code == 1
        assert changes(done)["lab1"] == []
        assert set(changes(done)["lab2"]) == {"host_tuning"}
        assert "pcie.link-width" in done.messages
        assert provisioned.on("lab1", "sysctl -n net.ipv4.tcp_mtu_probing") == "0"
        forced = provisioned.provision("--limit", "lab1", "--force")
        assert set(changes(forced)["lab1"]) == {"host_tuning"}
    finally:
        provisioned.qwenhost("lab", "fault", HOST, "--clear", "--name", LAB.name)

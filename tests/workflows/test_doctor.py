"""Doctor's ways in: this host, SSH, a bundle; the same findings for the same host."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from qwenhost.expectations.declared import read_declared
from qwenhost.records.bundle import Bundle, Capture
from qwenhost.records.errors import QwenhostError
from qwenhost.records.finding import HostReport, Verdict
from qwenhost.records.host import Host
from qwenhost.transports import local
from qwenhost.workflows import doctor, hosts, observed
from qwenhost.workflows.asked import standing_sources

from ..transports.conftest import Server, server  # noqa: F401  (the fixture)


def verdicts(report: HostReport) -> dict[tuple[str, str], Verdict]:
    """Return what a report says, without wording."""
    return {(finding.check, finding.subject): finding.verdict for finding in report.findings}


def test_a_host_that_shows_nothing_is_never_healthy() -> None:
    report = doctor.examine_bundle(Bundle("h", ()), read_declared({}, host="h"))
    assert report.count(Verdict.UNKNOWN)
    assert not report.count(Verdict.PASS)


@pytest.mark.parametrize("status", ["missing", "denied", "timeout", "failed"])
def test_a_host_that_answers_nothing_is_never_healthy(status: str) -> None:
    captures = tuple(Capture(source.name, status, error="no") for source in standing_sources())  # type: ignore[arg-type]
    report = doctor.examine_bundle(Bundle("h", captures), read_declared({}, host="h"))
    assert not [finding for finding in report.findings if finding.verdict is Verdict.PASS]


def test_declared_gpus_that_are_not_there_are_no_pass() -> None:
    declared = read_declared({"qwenhost_sku": "a100-sxm4-80gb", "qwenhost_gpus": 8}, host="h")
    report = doctor.examine_bundle(local.fetch(standing_sources()), declared)
    if not observed.pci_device_ids(local.fetch(standing_sources())):
        told = {finding.check: finding.verdict for finding in report.findings}
        assert told["gpu.count"] in (Verdict.FAIL, Verdict.UNKNOWN)
        assert told["driver.present"] in (Verdict.FAIL, Verdict.UNKNOWN)
        assert report.sku == "a100-sxm4-80gb"


def test_this_host_and_its_capture_have_the_same_findings(tmp_path: Path) -> None:
    bundle = local.fetch(standing_sources())
    path = tmp_path / "bundle.json"
    path.write_text(bundle.to_json())
    declared = read_declared({}, host="h")
    live, recorded = doctor.examine_bundle(bundle, declared), doctor.examine_recorded(str(path), None)
    assert verdicts(live) == verdicts(recorded)


def test_this_host_over_ssh_has_the_same_findings(server: Server) -> None:  # noqa: F811
    (over_ssh,) = doctor.examine_hosts([server.host()])
    assert over_ssh.error == ""
    assert verdicts(over_ssh) == verdicts(doctor.examine_here())


def test_a_host_that_is_not_reached_does_not_end_the_run(server: Server) -> None:  # noqa: F811
    reached, lost = doctor.examine_hosts([server.host(), server.host(name="lab2", port=9)])
    assert reached.findings
    assert (lost.host, lost.findings) == ("lab2", ())
    assert "refuses" in lost.error
    assert lost.hint


def test_a_wrong_declaration_ends_the_run_before_any_host_is_asked() -> None:
    host = Host("lab1", variables={"qwenhost_gpu": 8}, origin="hosts.yml")
    with pytest.raises(QwenhostError, match=r"hosts\.yml: lab1: qwenhost_gpu") as caught:
        doctor.examine_hosts([host])
    assert "qwenhost_gpus" in caught.value.hint


def test_the_product_is_told_by_its_pci_id() -> None:
    bus = "/sys/bus/pci/devices/0000:07:00.0"
    files = {f"{bus}/vendor": "0x10de", f"{bus}/device": "0x20b2", f"{bus}/class": "0x030200"}
    bundle = Bundle("h", (Capture("pci", "ok", json.dumps(files)),))
    assert doctor.examine_bundle(bundle, read_declared({}, host="h")).sku == "a100-sxm4-80gb"


def test_role_arguments_come_from_the_declaration_and_the_host() -> None:
    cpus = {
        "/sys/devices/system/node/node0/cpulist": "0-3\n",
        "/sys/devices/system/node/node1/cpulist": "4-7\n",
    }
    bundle = Bundle("h", (Capture("numa-nodes", "ok", json.dumps(cpus)),))
    declared = read_declared({"qwenhost_hugepages": {"2M": 101}}, host="h")
    assert doctor.role_settings(bundle, declared)["host_tuning_hugepages"] == [
        {"node": 0, "size_kib": 2048, "pages": 51},
        {"node": 1, "size_kib": 2048, "pages": 50},
    ]


@pytest.mark.parametrize(
    ("text", "address", "port", "user"),
    [
        ("gpu-a1", "gpu-a1", None, ""),
        ("root@gpu-a1:2222", "gpu-a1", 2222, "root"),
        ("10.0.0.1", "10.0.0.1", None, ""),
        ("[fd00::1]:22", "fd00::1", 22, ""),
    ],
)
def test_hosts_are_named_as_ssh_names_them(text: str, address: str, port: int | None, user: str) -> None:
    host = hosts.parse_host(text)
    assert (host.name, host.address, host.port, host.user) == (text, address, port, user)


@pytest.mark.parametrize("text", ["", "a b", "-oProxyCommand=x", "a:b", "u@", "h:22:33"])
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(QwenhostError, match="is not a host"):
        hosts.parse_host(text)


def test_a_profile_on_the_command_line_wins() -> None:
    (host,) = hosts.choose(["gpu-a1"], None, profile="serving")
    assert host.variables == {"qwenhost_profile": "serving"}
    assert replace(host, variables={}) == hosts.parse_host("gpu-a1")

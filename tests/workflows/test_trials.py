"""Trials run only on free GPUs, and their answers are judged with everything else."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from qwenhost.facts.trials import TRIALS
from qwenhost.records.bundle import Bundle, Capture
from qwenhost.records.source import Source
from qwenhost.workflows.trials import tried, were_tried

FREE = """\
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 580.95.05    Driver Version: 580.95.05    CUDA Version: 13.0     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
|===============================+======================+======================|
|   0  NVIDIA A100-SXM...  On   | 00000000:07:00.0 Off |                    0 |
| N/A   30C    P0    60W / 400W |      0MiB / 81920MiB |      0%      Default |
|                               |                      |             Disabled |
+-------------------------------+----------------------+----------------------+
+-----------------------------------------------------------------------------+
| Processes:                                                                  |
|  GPU   GI   CI        PID   Type   Process name                  GPU Memory |
|        ID   ID                                                   Usage      |
|=============================================================================|
|  No running processes found                                                 |
+-----------------------------------------------------------------------------+
"""
BUSY = FREE.replace(
    "|  No running processes found                                                 |",
    "|    0   N/A  N/A     41217      C   python3                         70000MiB |",
)


def seen(table: str) -> Bundle:
    return Bundle("h", (Capture("nvidia-smi", "ok", table, exit_code=0),))


def run(trials: Sequence[Source]) -> Bundle:
    return Bundle("h", tuple(Capture(trial.name, "ok", '{"trial": "x"}') for trial in trials))


def never(trials: Sequence[Source]) -> Bundle:
    raise AssertionError(f"{trials} would have disturbed somebody")


def test_free_gpus_are_tried() -> None:
    bundle = tried(seen(FREE), run)
    assert all(bundle.of(trial.name)[0].text == '{"trial": "x"}' for trial in TRIALS)
    assert were_tried(bundle)
    assert not were_tried(seen(FREE))


@pytest.mark.parametrize(
    ("bundle", "why"),
    [
        (seen(BUSY), "in use by python3 (pid 41217)"),
        (Bundle("h", ()), "it was not seen whether a program uses the GPUs"),
        (seen(FREE.split("+\n| Processes")[0]), "it was not seen whether a program uses the GPUs"),
    ],
    ids=["busy", "blind", "cut off"],
)
def test_no_trial_while_a_gpu_is_or_may_be_in_use(bundle: Bundle, why: str) -> None:
    answered = tried(bundle, never)
    assert {json.loads(answered.of(trial.name)[0].text)["refused"] for trial in TRIALS} == {why}

"""The controller is killed where a task begins: the next run converges, and the one after it changes nothing."""

from __future__ import annotations

import os

import pytest

from tests.lab.faults.conftest import Host

EVERY = "QWENHOST_EVERY_BOUNDARY"
"""Set to kill at each task on its own, which takes half a minute each; else a few, one run after the other."""

SPREAD = (0.1, 0.35, 0.6, 0.85)


@pytest.mark.skipif(EVERY in os.environ, reason="each boundary is tested on its own")
def test_killed_again_and_again(host: Host) -> None:
    host.make_bare()
    for share in SPREAD:
        print(f"killed at: {host.killed_at(0, host.tasks[int(share * len(host.tasks))])}")
    host.assert_converges()


@pytest.mark.skipif(EVERY not in os.environ, reason=f"set {EVERY}=1")
def test_killed_at_every_boundary(host: Host) -> None:
    for boundary in range(len(host.tasks)):
        host.make_bare()
        print(f"{boundary + 1} of {len(host.tasks)}, killed at: {host.killed_at(boundary)}")
        host.assert_converges()

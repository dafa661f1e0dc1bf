"""MIG on simulated A100 boards (qwenhost.lab.simulator): no driver and no GPU is needed."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from qwenhost.hands.answer import Refused
from qwenhost.hands.mig_layout import Profile, Wanted, in_order, place
from qwenhost.lab.simulator import faults
from qwenhost.lab.simulator.guest import state
from tests.hands.conftest import Hands

pytestmark = pytest.mark.slow

HALVES = ["3g.40gb", "3g.40gb"]


def layout(*instances: str, gpu: int = 0, mig: bool = True) -> dict[str, Any]:
    return {"layout": [{"gpu": gpu, "mig": mig, "instances": list(instances)}], "timeout_seconds": 5}


def test_layout_is_created_once(on_board: Hands) -> None:
    checked = on_board("mig", layout(*HALVES), "--check")
    assert on_board("mig", layout(*HALVES), "--check") == checked
    ran = on_board("mig", layout(*HALVES))
    assert ran == checked
    assert ran.answer["before"] == ["gpu 0: MIG off"]
    assert ran.answer["after"] == ["gpu 0: MIG on: 3g.40gb, 3g.40gb"]
    again = on_board("mig", layout(*HALVES))
    assert (again.status, again.answer["changed"]) == (0, False)


def test_other_gpus_are_left_alone(on_board: Hands) -> None:
    on_board("mig", layout(*HALVES))
    on_board("mig", layout("1g.10gb", gpu=1))
    both = {"layout": [{"gpu": 1, "mig": False}, {"gpu": 0, "mig": True, "instances": HALVES}]}
    ran = on_board("mig", both)
    assert ran.answer["before"] == ["gpu 0: MIG on: 3g.40gb, 3g.40gb", "gpu 1: MIG on: 1g.10gb"]
    assert ran.answer["after"] == ["gpu 0: MIG on: 3g.40gb, 3g.40gb", "gpu 1: MIG off"]


@pytest.mark.parametrize(
    "instances",
    [
        ("7g.80gb",),
        ("3g.40gb", "4g.40gb"),
        ("1g.10gb", "1g.10gb", "2g.20gb", "3g.40gb"),
        ("2g.20gb", "2g.20gb", "3g.40gb"),
        ("1g.10gb",) * 7,
        ("1g.20gb", "2g.20gb", "4g.40gb"),
        ("1g.10gb+me", "1g.10gb"),
        (),
    ],
)
def test_orders_that_a_board_can_hold(on_board: Hands, instances: tuple[str, ...]) -> None:
    ran = on_board("mig", layout(*instances))
    assert ran.status == 0, ran.answer
    wanted = ", ".join(in_order(list(instances))) or "no instances"
    assert ran.answer["after"] == [f"gpu 0: MIG on: {wanted}"]


def test_every_instance_can_be_used(on_board: Hands, board: Path) -> None:
    on_board("mig", layout("3g.40gb", "1g.10gb"))
    values = state.read(board)
    uuids = {value for name, value in values.items() if name.startswith("gpu0.gi") and name.endswith(".uuid")}
    assert len(uuids) == 2
    ran = on_board("wait-gpu", {"gpus": sorted(uuids), "timeout_seconds": 0})
    assert (ran.status, ran.answer["changed"]) == (0, False)


def test_instance_without_compute_instance_is_put_right(on_board: Hands, board: Path) -> None:
    on_board("mig", layout(*HALVES))
    with state.change(board) as values:
        for name in [name for name in values if name.startswith("gpu0.gi1.ci")]:
            del values[name]
    ran = on_board("mig", layout(*HALVES))
    assert ran.answer["before"] == ["gpu 0: MIG on: 3g.40gb, 3g.40gb (1 without its compute instance)"]
    assert on_board("mig", layout(*HALVES)).answer["changed"] is False


@pytest.mark.parametrize("instances", [["9g.40gb"], ["3g.20gb"], ["1g.10gb+gfx"]])
def test_unknown_profile_leaves_the_gpu_as_it_was(on_board: Hands, instances: list[str]) -> None:
    ran = on_board("mig", layout(*instances))
    assert ran.status == 1
    offered = "7g.80gb, 4g.40gb, 3g.40gb, 2g.20gb, 1g.20gb, 1g.10gb, 1g.10gb+me"
    assert ran.answer["error"] == f"mig: gpu 0: no MIG profile {instances[0]} (it has: {offered})"
    assert on_board("mig", layout(mig=False)).answer["before"] == ["gpu 0: MIG off"]


def test_too_much_is_refused_before_anything_is_destroyed(on_board: Hands) -> None:
    on_board("mig", layout(*HALVES))
    ran = on_board("mig", layout(*HALVES, "1g.10gb"))
    assert ran.answer["error"] == "mig: gpu 0: 3g.40gb, 3g.40gb, 1g.10gb do not fit together"
    assert on_board("mig", layout(*HALVES)).answer["changed"] is False


def test_held_gpu_is_refused_with_the_process(on_board: Hands, board: Path) -> None:
    faults.inject(board, "gpu-held")
    ran = on_board("mig", layout(*HALVES))
    assert ran.status == 1
    assert "gpu 0 is held by process 4242" in ran.answer["error"]
    assert on_board("mig", layout(mig=False)).answer["changed"] is False


def test_pending_mode_asks_for_a_reboot(on_board: Hands, board: Path) -> None:
    """A client that NVML does not list, as a monitoring agent, keeps the mode pending."""
    with state.change(board) as values:
        values["gpu0.clients"] = "agent"
    ran = on_board("mig", layout(*HALVES))
    assert ran.status == 0
    assert ran.answer["after"] == ["gpu 0: MIG off until a reboot, then on"]
    assert ran.answer["reboot_required"] is True
    assert ran.answer["reason"] == "MIG mode of gpu 0 is set and takes effect with the next reboot"
    again = on_board("mig", layout(*HALVES))
    assert (again.answer["changed"], again.answer["reboot_required"]) == (False, True)


def test_gpu_that_is_not_there(on_board: Hands) -> None:
    assert on_board("mig", layout(gpu=5)).answer["error"] == "mig: the driver has no gpu 5: it counts 2"


def test_no_driver(hands: Hands) -> None:
    ran = hands("mig", layout())
    assert ran.status == 1
    assert ran.answer["error"].startswith("mig: the NVIDIA driver does not answer: ")


def test_wait_names_what_is_not_free(on_board: Hands, board: Path) -> None:
    faults.inject(board, "gpu-held")
    request = {"gpus": [0], "free_fraction": 0.99, "timeout_seconds": 0.3}
    told = on_board("wait-gpu", request).answer["error"]
    assert "gpu 0: 98 % of its memory is free, 99 % wanted, held by 4242" in told
    assert on_board("wait-gpu", {"gpus": [1], "timeout_seconds": 0}).status == 0
    assert "MIG-1: Not Found" in on_board("wait-gpu", {"gpus": ["MIG-1"], "timeout_seconds": 0}).answer["error"]


SHAPES = {  # name: slices, limit, starts, size; source: nvidia-smi mig -lgipp, A100
    "7g.80gb": (7, 1, (0,), 8),
    "4g.40gb": (4, 1, (0,), 4),
    "3g.40gb": (3, 2, (0, 4), 4),
    "2g.20gb": (2, 3, (0, 2, 4), 2),
    "1g.10gb": (1, 7, tuple(range(7)), 1),
}
PROFILES = [
    Profile(n, name, s, 0, limit, starts, size)
    for n, (name, (s, limit, starts, size)) in enumerate(SHAPES.items())
]


def test_places_never_overlap_and_none_is_refused_that_fits() -> None:
    """Against all ways of placing, for every set of up to four instances."""
    for names in {in_order(list(each)) for each in product(SHAPES, repeat=4)}:
        possible = any(_apart(names, starts) for starts in product(*(SHAPES[name][2] for name in names)))
        try:
            placed = place(Wanted(0, True, names), PROFILES)
        except Refused:
            assert not possible, names
        else:
            assert _apart(names, tuple(one.start for one in placed)), names


def _apart(names: tuple[str, ...], starts: tuple[int, ...]) -> bool:
    limits = all(names.count(name) <= SHAPES[name][1] for name in names)
    cells = [
        cell for name, start in zip(names, starts, strict=True) for cell in range(start, start + SHAPES[name][3])
    ]
    return limits and len(set(cells)) == len(cells)

"""MIG layout: mode and instances of each GPU, created in a fixed order and read back.

A GPU that has its layout is not touched. On A100 the mode outlives a reboot and the instances do not, so the
same act serves the first setup and every boot after it.
"""

from __future__ import annotations

from typing import Any

import pynvml

from qwenhost.hands import drain
from qwenhost.hands import mig_board as board
from qwenhost.hands.answer import Refused, outcome
from qwenhost.hands.mig_layout import Placed, Wanted, place, read_layout
from qwenhost.hands.nvml import Deadline, doing, held_by, named, session
from qwenhost.hands.systemd import unit_of

TIMEOUT_SECONDS = 120
ATTEMPTS = 5
"""Drivers have reported a created instance that was not there when looked for."""


def run(request: dict[str, Any], check: bool = False) -> dict[str, Any]:
    """Bring {"layout": [{"gpu", "mig", "instances"}], "timeout_seconds", "services", "drain", "refresh"} into
    force. With `drain`, those of `services` that run are stopped meanwhile; units of `refresh` are restarted after
    a change, where they are installed. Raises Refused.
    """
    layout, services = read_layout(request), drain.read_services(request)
    seconds = float(request.get("timeout_seconds", TIMEOUT_SECONDS))
    with session(Deadline(seconds)):
        before = [_state(wanted) for wanted in layout]
        after = [board.wanted_line(wanted) for wanted in layout]
        changing = [wanted for each, wanted in enumerate(layout) if before[each] != after[each]]
        _refuse_impossible(changing)
        known = drain.running(services) if changing else []
        _refuse_held(changing, known, bool(request.get("drain")))
    stopping = known if request.get("drain") else []
    now, then = drain.lines(stopping)
    if check:
        return outcome(before + now, after + then)
    with drain.stopped(stopping, services):
        pending = _change(changing, Deadline(seconds)) if changing else []
        drain.refresh(request.get("refresh", []) if changing else [])
    with session(Deadline(seconds)):
        return outcome(before + now, [_state(wanted) for wanted in layout] + then, _reboot_reason(pending))


def _change(layout: list[Wanted], deadline: Deadline) -> list[int]:
    """Bring GPUs into their layout once nobody holds them; return those whose mode waits for a reboot."""
    with session(deadline):
        _wait_released(layout, deadline)
        switched = [wanted.gpu for wanted in layout if _clear_and_switch(wanted)]
    with session(deadline):  # the switch reset the GPU: handles of before may be stale
        pending = [wanted.gpu for wanted in layout if not _in_mode(wanted)]
        _populate([wanted for wanted in layout if wanted.gpu not in pending], switched, deadline)
    return pending


def current(timeout_seconds: float = TIMEOUT_SECONDS) -> list[dict[str, Any]]:
    """Return the layout of all boards that have MIG, as a request has it. Raises Refused without a driver."""
    with session(Deadline(timeout_seconds)), doing("reading the MIG layout"):
        handles = [(gpu, board.device(gpu)) for gpu in range(pynvml.nvmlDeviceGetCount())]
        return [_layout_of(gpu, handle) for gpu, handle in handles if board.modes(handle) is not None]


def _layout_of(gpu: int, handle: Any) -> dict[str, Any]:
    mig = board.modes(handle) in ((True, True), (True, False))
    there = board.instances(handle, board.profiles(handle)) if mig else []
    return {"gpu": gpu, "mig": mig, "instances": [instance.profile.name for instance in there]}


def _state(wanted: Wanted) -> str:
    with doing("gpu {}: reading its MIG state".format(wanted.gpu)):
        return board.describe(wanted.gpu, board.device(wanted.gpu))


def _refuse_impossible(layout: list[Wanted]) -> None:
    """Raise Refused, before anything is destroyed, for what the boards cannot be."""
    for wanted in layout:
        with doing("gpu {}: reading its MIG profiles".format(wanted.gpu)):
            handle = board.device(wanted.gpu)
            mode = board.modes(handle)
            if mode is None:
                raise Refused("gpu {} ({}) has no MIG".format(wanted.gpu, board.name(handle)))
            if mode[0] and wanted.mig:  # in another mode the driver does not tell the profiles
                place(wanted, board.profiles(handle))


def _refuse_held(layout: list[Wanted], known: list[str], draining: bool) -> None:
    """Raise Refused, with names, for GPUs held by others than the services that will be stopped."""
    units = {pid: unit_of(pid) for wanted in layout for pid in _pids(wanted)}
    told = [
        "gpu {} is held by process {}".format(wanted.gpu, ", ".join(_told(pid, units[pid]) for pid in pids))
        for wanted in layout
        if (pids := [pid for pid in _pids(wanted) if not (draining and units[pid] in known)])
    ]
    if told and set(units.values()) <= set(known):
        told.append("with qwenhost_drain: true these services are stopped meanwhile")
    if told:
        raise Refused("; ".join(told))


def _told(pid: int, unit: str) -> str:
    return "{} of {}".format(named(pid), unit) if unit else named(pid)


def _pids(wanted: Wanted) -> list[int]:
    with doing("gpu {}: reading its processes".format(wanted.gpu)):
        handle = board.device(wanted.gpu)
        devices = [handle, *(one for _, one in board.mig_handles(handle))]
        return sorted({pid for one in devices for pid in held_by(one)})


def _wait_released(layout: list[Wanted], deadline: Deadline) -> None:
    """Wait for what was stopped: a process that ended gives its GPU back a little later. Raises Refused."""
    while True:
        held = [
            "gpu {} is still held by process {}".format(wanted.gpu, ", ".join(map(named, pids)))
            for wanted in layout
            if (pids := _pids(wanted))
        ]
        if not held:
            return
        if not deadline.pause():
            raise Refused("; ".join(held))


def _clear_and_switch(wanted: Wanted) -> bool:
    """Destroy the instances and set the mode; return whether the mode was set anew."""
    handle = board.device(wanted.gpu)
    mode = board.modes(handle)
    if mode and mode[0]:
        with doing("gpu {}: destroying its instances".format(wanted.gpu)):
            _clear(handle)
    if mode == (wanted.mig, wanted.mig):
        return False
    with doing("gpu {}: switching MIG {}".format(wanted.gpu, "on" if wanted.mig else "off")):
        pynvml.nvmlDeviceSetMigMode(handle, int(wanted.mig))
    return True


def _clear(handle: Any) -> None:
    for instance in board.instances(handle, board.profiles(handle)):
        for _, compute in list(board.compute_instances(instance.handle)):
            pynvml.nvmlComputeInstanceDestroy(compute)
        pynvml.nvmlGpuInstanceDestroy(instance.handle)


def _in_mode(wanted: Wanted) -> bool:
    with doing("gpu {}: reading its MIG mode".format(wanted.gpu)):
        mode = board.modes(board.device(wanted.gpu))
    return mode is not None and mode[0] == wanted.mig


def _populate(layout: list[Wanted], switched: list[int], deadline: Deadline) -> None:
    """Create the instances of every GPU; a GPU that cannot have its own goes back to the mode it came from."""
    plans = {}
    for wanted in (wanted for wanted in layout if wanted.mig):
        handle = board.device(wanted.gpu)
        try:
            with doing("gpu {}: reading its MIG profiles".format(wanted.gpu)):
                plans[wanted.gpu] = place(wanted, board.profiles(handle))
        except Refused:
            if wanted.gpu in switched:
                with doing("gpu {}: switching MIG off again".format(wanted.gpu)):
                    pynvml.nvmlDeviceSetMigMode(handle, 0)
            raise
    for gpu, plan in plans.items():
        _create_all(gpu, plan, deadline)


def _create_all(gpu: int, plan: list[Placed], deadline: Deadline) -> None:
    """Create what is missing until all is seen. Raises Refused after some attempts or at the deadline."""
    handle = board.device(gpu)
    for attempt in range(1, ATTEMPTS + 1):
        last = attempt == ATTEMPTS
        with doing("gpu {}: creating its instances".format(gpu)):
            try:
                _create_missing(handle, plan)
            except pynvml.NVMLError:
                if last:
                    raise
            visible = _visible(handle)
            if visible == len(plan) and _complete(handle, plan):
                return
        if last or not deadline.pause():
            break
    told = "gpu {}: {} instances wanted, {} visible after {} attempts"
    raise Refused(told.format(gpu, len(plan), visible, attempt))


def _create_missing(handle: Any, plan: list[Placed]) -> None:
    for instance in board.instances(handle, board.profiles(handle)):
        if not instance.whole:
            _cover(instance.handle, instance.profile.slices)
    there = _places(handle)
    for placed in plan:
        if (placed.profile.id, placed.start) not in there:
            _cover(board.create(handle, placed), placed.profile.slices)


def _cover(handle: Any, slices: int) -> None:
    """Create the compute instance that covers a GPU instance; without one no CUDA program can use it."""
    profile = board.compute_profile(handle, board.COMPUTE_OF_SLICES[slices])
    if profile is None:
        raise Refused("the driver offers no compute instance of {} slices".format(slices))
    pynvml.nvmlGpuInstanceCreateComputeInstance(handle, profile.id)


def _places(handle: Any) -> set[tuple[int, int]]:
    return {(one.profile.id, one.start) for one in board.instances(handle, board.profiles(handle))}


def _complete(handle: Any, plan: list[Placed]) -> bool:
    found = board.instances(handle, board.profiles(handle))
    wanted = {(placed.profile.id, placed.start) for placed in plan}
    return all(one.whole for one in found) and {(one.profile.id, one.start) for one in found} == wanted


def _visible(handle: Any) -> int:
    """Return how many MIG devices the driver finds by their UUID, as a CUDA program will."""
    uuids = {uuid for uuid, _ in board.mig_handles(handle)}
    return sum(bool(pynvml.nvmlDeviceGetHandleByUUID(uuid)) for uuid in uuids)


def _reboot_reason(pending: list[int]) -> str:
    if not pending:
        return ""
    gpus = ", ".join(map(str, pending))
    return "MIG mode of gpu {} is set and takes effect with the next reboot".format(gpus)

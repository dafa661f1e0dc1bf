"""NVML sessions: a driver that still starts is waited for, an NVML error becomes one line."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import Any, Callable, Iterator

import pynvml

from qwenhost.hands import kernel
from qwenhost.hands.answer import Refused

PAUSE_SECONDS = 0.25


class Deadline:
    """A moment after which nothing is tried again."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def pause(self, seconds: float = PAUSE_SECONDS) -> bool:
        """Wait a little; return whether there was time left for it."""
        left = self._end - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(seconds, left))
        return True


@contextmanager
def session(deadline: Deadline) -> Iterator[None]:
    """Hold NVML open. Raises Refused for its errors, and where it does not answer before the deadline."""
    _start(deadline)
    with doing("the NVIDIA driver fails"):
        try:
            yield
        finally:
            pynvml.nvmlShutdown()


def _start(deadline: Deadline) -> None:
    while True:
        try:
            pynvml.nvmlInit()
            return
        except pynvml.NVMLError as error:
            absent = error.value == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
            if absent or not deadline.pause():
                raise Refused("the NVIDIA driver does not answer: {}".format(error)) from error


@contextmanager
def doing(what: str) -> Iterator[None]:
    """Turn an NVML error into Refused that says what was being done."""
    try:
        yield
    except pynvml.NVMLError as error:
        raise Refused("{}: {}".format(what, error)) from error


def supported(call: Callable[..., Any], *arguments: Any) -> Any:
    """Return what NVML answers, or None where the driver or the board does not know the question."""
    try:
        return call(*arguments)
    except pynvml.NVMLError as error:
        unknown = (
            pynvml.NVML_ERROR_NOT_SUPPORTED,
            pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
            pynvml.NVML_ERROR_INVALID_ARGUMENT,
        )
        if error.value in unknown:
            return None
        raise


def text(value: Any) -> str:
    """Return a string of NVML, which older bindings give as bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def holders(device: Any) -> list[str]:
    """Return the processes on a GPU or MIG device, such as "4242 (python3)"."""
    return [named(pid) for pid in held_by(device)]


def held_by(device: Any) -> list[int]:
    """Return the processes on a GPU or MIG device by number."""
    kinds = (
        ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"),
        ("nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2"),
    )
    pids: set[int] = set()
    for names in kinds:
        answers = (supported(getattr(pynvml, name), device) for name in names)
        found = next((answer for answer in answers if answer is not None), None)
        pids.update(process.pid for process in found or ())
    return sorted(pids)


def named(pid: int) -> str:
    """Return a process as "4242 (python3)"."""
    try:
        return "{} ({})".format(pid, kernel.read(kernel.path_of("proc", str(pid), "comm")))
    except OSError:
        return str(pid)

"""Wait until GPUs or MIG devices have free memory: a process that ended gives its memory back a little later."""

from __future__ import annotations

from typing import Any

import pynvml

from qwenhost.hands import mig_board
from qwenhost.hands.answer import BadRequest, Refused, outcome
from qwenhost.hands.nvml import Deadline, holders, session

FREE_FRACTION = 0.9
"""vLLM claims this share of a GPU by default: --gpu-memory-utilization 0.9."""
TIMEOUT_SECONDS = 120


def run(request: dict[str, Any], check: bool = False) -> dict[str, Any]:
    """Wait for {"gpus": [index or UUID], "free_fraction", "timeout_seconds"}; no gpus means all.

    Raises Refused at the deadline, naming what is not free and who holds it. Changes nothing.
    """
    wanted = float(request.get("free_fraction", FREE_FRACTION))
    gpus = list(request.get("gpus") or ())
    if not 0 < wanted <= 1 or not all(isinstance(gpu, (int, str)) for gpu in gpus):
        raise BadRequest("gpus are indices or UUIDs, free_fraction is above 0 and at most 1")
    deadline = Deadline(0 if check else float(request.get("timeout_seconds", TIMEOUT_SECONDS)))
    with session(deadline):
        gpus = gpus or list(range(pynvml.nvmlDeviceGetCount()))
        while True:
            short = [line for gpu in gpus for line in _shortage(gpu, wanted)]
            if not short or check:
                state = short or ["all free"]
                return outcome(state, state)
            if not deadline.pause():
                raise Refused("; ".join(short))


def _shortage(gpu: int | str, wanted: float) -> list[str]:
    """Return what keeps a GPU from being free, or nothing."""
    try:
        handle = mig_board.device(gpu) if isinstance(gpu, int) else pynvml.nvmlDeviceGetHandleByUUID(gpu)
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
        if memory.free >= wanted * memory.total:
            return []
        by = ", ".join(holders(handle)) or "no visible process"
    except pynvml.NVMLError as error:
        return ["gpu {}: {}".format(gpu, error)]
    told = "gpu {}: {:.0f} % of its memory is free, {:.0f} % wanted, held by {}"
    return [told.format(gpu, 100 * memory.free / memory.total, 100 * wanted, by)]

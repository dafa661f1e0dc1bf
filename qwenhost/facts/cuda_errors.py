"""What CUDA programs said when the driver, the fabric or a partition let them down."""

from __future__ import annotations

import re
from dataclasses import dataclass

from qwenhost.facts.reading import plain
from qwenhost.facts.registry import parses
from qwenhost.facts.vllm_lines import lines_of_last_starts
from qwenhost.facts.vllm_log import JOURNAL
from qwenhost.records.bundle import Capture
from qwenhost.records.source import recorded

_ERRORS: tuple[tuple[str, str], ...] = (
    (
        "not ready",
        r"Error 802\b|CUDA_ERROR_SYSTEM_NOT_READY|cudaErrorSystemNotReady"
        r"|system not yet initialized",
    ),
    (
        "forward compatibility",
        r"Error 804\b|cudaErrorCompatNotSupportedOnDevice"
        r"|forward compatibility was attempted on non supported HW",
    ),
    ("driver mismatch", r"Error 803\b|CUDA_ERROR_SYSTEM_DRIVER_MISMATCH|cudaErrorSystemDriverMismatch"),
    (
        "driver too old",
        r"NVIDIA driver on your system is too old"
        r"|CUDA driver version is insufficient for CUDA runtime version",
    ),
    ("one gpu twice", r"Duplicate GPU detected"),
    (
        "more devices than visible",
        r"device >= 0 && device < num_gpus|invalid device ordinal",
    ),
)

OUTPUT = recorded("cuda-errors", "|".join(pattern for _, pattern in _ERRORS) + r"|\+cu1[123]\d\b")
"""Any program's output with such an error in it."""


@dataclass(frozen=True)
class CudaError:
    """One kind of error, with the line that it was read from."""

    kind: str
    line: str
    found_cuda: str | None = None
    """Highest CUDA version of the driver, where the error names it."""


@dataclass(frozen=True)
class CudaErrors:
    """Errors by kind, once each. `wheels`: CUDA builds that are named in the output, such as "13.0"."""

    errors: tuple[CudaError, ...]
    wheels: tuple[str, ...] = ()

    def merge(self, other: CudaErrors) -> CudaErrors:
        """Join the errors of two programs."""
        return CudaErrors((*self.errors, *other.errors), (*self.wheels, *other.wheels))

    def of(self, kind: str) -> CudaError | None:
        """Return the error of this kind, if it was seen."""
        return next((error for error in self.errors if error.kind == kind), None)


@parses(OUTPUT)
def errors_from_output(capture: Capture) -> CudaErrors:
    """Find the errors in a program's output; output without any is an answer, too."""
    return _errors(plain(capture.text))


@parses(JOURNAL)
def errors_from_journal(capture: Capture) -> CudaErrors:
    """Find the errors of each service's last start: what an earlier one met is over."""
    return _errors(lines_of_last_starts(capture.text))


def _errors(text: str) -> CudaErrors:
    found = (_error(kind, pattern, text) for kind, pattern in _ERRORS)
    wheels = tuple(f"{build[:2]}.{build[2:]}" for build in dict.fromkeys(re.findall(r"\+cu(1[123]\d)\b", text)))
    return CudaErrors(tuple(error for error in found if error), wheels)


def _error(kind: str, pattern: str, text: str) -> CudaError | None:
    line = re.search(rf"^.*(?:{pattern}).*$", text, re.MULTILINE)
    if not line:
        return None
    named = re.search(r"found version (\d+)", line[0])
    cuda = f"{int(named[1]) // 1000}.{int(named[1]) % 1000 // 10}" if named else None
    return CudaError(kind, line[0].strip()[:300], cuda)

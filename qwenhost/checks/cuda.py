"""CUDA: the driver is new enough for what programs bring along, and no library gets in between."""

from __future__ import annotations

from collections.abc import Iterator

from qwenhost.checks.declare import Judgement, check, judged, note, skip
from qwenhost.checks.per_gpu import DRIVER_ANSWERS
from qwenhost.expectations.software import compat_serves, compat_too_old, cuda_floor
from qwenhost.facts.cuda_errors import CudaErrors
from qwenhost.facts.cuda_libraries import CudaLibraries
from qwenhost.facts.driver import DriverVersions
from qwenhost.records.desired import Expectations
from qwenhost.records.finding import Verdict, by_hand
from qwenhost.records.versions import older, parts

HOST = "host"


@check(
    "driver.cuda-match",
    remedy=by_hand(
        "Install a driver of a supported branch that is new enough, and reboot; on data centre GPUs, the"
        " cuda-compat package of the program's CUDA on the library path does, too."
    ),
    consequence_of=DRIVER_ANSWERS,
)
def cuda_match(
    versions: DriverVersions | None, errors: CudaErrors | None, libraries: CudaLibraries | None, want: Expectations
) -> Iterator[Judgement]:
    """The driver is new enough for the CUDA that programs bring along.

    vLLM's wheels carry their own CUDA runtime: only the driver's branch matters. CUDA 12 needs 525.60.13
    or newer, CUDA 13 needs 580.65.06 or newer, unless a forward-compatibility package is used.
    """
    refused = errors.of("driver too old") if errors else None
    module, cuda = (versions.module, versions.cuda) if versions else (None, None)
    wheels = errors.wheels if errors else ()
    compat = libraries.compat_cuda if libraries else ""
    if refused:
        found = f"CUDA {refused.found_cuda or cuda or 'of an older driver'}, driver {module or 'not seen'}"
        yield Judgement(HOST, Verdict.FAIL, found, _needed(wheels), evidence=refused.line)
    elif module and want.driver_floor:
        yield _against_floor(module, compat, want)
    elif cuda and wheels:
        yield _against_wheels(cuda, module, wheels)
    elif not want.driver_floor and not wheels:
        yield skip(HOST, "no CUDA program is declared or was seen")


def _needed(wheels: tuple[str, ...]) -> str:
    if not wheels:
        return "a newer driver"
    newest = max(wheels, key=parts)
    return f"{cuda_floor(newest).version} or newer, for wheels of CUDA {newest}"


def _against_floor(module: str, compat: str, want: Expectations) -> Judgement:
    expected = f"{want.driver_floor} or newer"
    if older(module, want.driver_floor) and compat and compat_serves(compat, module):
        return note(HOST, f"driver {module}, through cuda-compat {compat}", expected=expected)
    return judged(
        HOST,
        not older(module, want.driver_floor),
        observed=f"driver {module}",
        expected=expected,
        origin=want.driver_floor_origin,
    )


def _against_wheels(cuda: str, module: str | None, wheels: tuple[str, ...]) -> Judgement:
    """Compare major versions: within one, programs run on any driver of that major version."""
    runs = parts(max(wheels, key=parts))[0] <= parts(cuda)[0]
    observed = f"driver's CUDA {cuda}" + (f", driver {module}" if module else "")
    return judged(HOST, runs, observed=observed, expected=_needed(wheels))


@check(
    "driver.forward-compat",
    remedy=by_hand(
        "Take the cuda-compat libraries off the library path (LD_LIBRARY_PATH, /etc/ld.so.conf.d, then sudo"
        " ldconfig); where the driver is too old without them, update the driver."
    ),
    consequence_of=("driver.versions-agree",),
)
def forward_compat(
    errors: CudaErrors | None, libraries: CudaLibraries | None, versions: DriverVersions | None
) -> Iterator[Judgement]:
    """No program picks up a forward-compatibility library that does not fit.

    cuda-compat packages serve data centre GPUs and older drivers only; on others CUDA stops with error
    804, and an old one beside a newer driver with error 803.
    """
    found = (errors.of("forward compatibility") or errors.of("driver mismatch")) if errors else None
    first = libraries.compat if libraries else ""
    if found:
        observed = f"{found.kind}; {first} comes first" if first else found.kind
        yield Judgement(HOST, Verdict.FAIL, observed, "no such error", evidence=found.line)
    elif libraries and first:
        yield _first_library(first, libraries.compat_cuda, versions.module if versions else None)
    elif libraries:
        yield Judgement(HOST, Verdict.PASS, "no cuda-compat library comes first")
    elif errors:
        yield skip(HOST, "no program reported it")


def _first_library(path: str, cuda: str, module: str | None) -> Judgement:
    if module and compat_too_old(cuda, module):
        expected = f"none: error 803 beside driver {module}"
        return Judgement(HOST, Verdict.FAIL, f"cuda-compat {cuda} comes first", expected, evidence=path)
    return note(HOST, f"cuda-compat {cuda or 'of some CUDA'} comes first", evidence=path)

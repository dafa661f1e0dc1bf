"""How long it takes, as a multiple of a baseline of the same run: `python -m benchmarks.speed [SUBJECT ...]`.

Each pair is run by turns, and the best of each counts. Run it with the Python of an installed wheel.
"""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks.fleet import fleet
from benchmarks.reports import bug_report

PYTHON = sys.executable
DOCTOR = (PYTHON, "-m", "qwenhost", "doctor")

READ_AND_SEARCH = """
import re, sys, zlib
text = zlib.decompress(open(sys.argv[1], "rb").read(), wbits=31).decode()
re.findall(r"^.*(?:NVRM|AER).*$", text, re.MULTILINE)
"""

BARE_NVML = """
import pynvml as p
from qwenhost.probe import nvml_fields
p.nvmlInit()
def ask(call):
    try:
        return call()
    except p.NVMLError:
        return {"error": ""}
handles = [p.nvmlDeviceGetHandleByIndex(index) for index in range(p.nvmlDeviceGetCount())]
for index, handle in enumerate(handles):
    peers = {peer: other for peer, other in enumerate(handles) if peer != index}
    nvml_fields.values(p, handle, 1, ask), nvml_fields.links(p, handle, ask)
    nvml_fields.p2p_nvlink(p, handle, peers, ask), nvml_fields.topology_ancestor(p, handle, peers, ask)
    nvml_fields.mig_devices(p, handle, ask)
"""

NVML_AS_READ = "from qwenhost.probe import nvml; nvml.read_nvml({})"


def main() -> None:
    """Measure the subjects that are named, or all."""
    subjects = {"help": help_text, "report": report, "gpus": gpus, "fleet": fleet_of_twenty}
    for name in sys.argv[1:] or subjects:
        subjects[name]()


def help_text() -> None:
    """`qwenhost --help` against starting Python."""
    compare("help", _run(PYTHON, "-m", "qwenhost", "--help"), "python -c pass", _run(PYTHON, "-c", "pass"))


def report() -> None:
    """A bug report of 5 MB against reading it and one search."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "nvidia-bug-report.log.gz")
        path.write_bytes(gzip.compress(bug_report(5_000_000)))
        bare = _run(PYTHON, "-c", READ_AND_SEARCH, str(path))
        compare("5 MB report", _run(*DOCTOR, "--bundle", str(path)), "unpack and search once", bare)


def gpus() -> None:
    """Eight simulated GPUs: the whole doctor, and its reading of NVML, against the same calls made bare."""
    with simulated_host() as environment:
        bare = _run(PYTHON, "-c", BARE_NVML, environment=environment)
        compare("doctor, 8 GPUs", _run(*DOCTOR, environment=environment), "the same NVML calls", bare)
        reading = _run(PYTHON, "-c", NVML_AS_READ, environment=environment)
        compare("reading of NVML", reading, "the same NVML calls", bare)


def fleet_of_twenty() -> None:
    """Twenty SSH servers on loopback (one sshd each) against `ssh host true` on all at once."""
    with fleet(20) as servers:
        doctor = _run(*DOCTOR, "-i", str(servers.inventory))
        compare("doctor, 20 hosts", doctor, "ssh HOST true, 20 at once", servers.log_in, rounds=3)


@contextmanager
def simulated_host() -> Iterator[Mapping[str, str]]:
    """Yield the environment in which NVML is that of eight simulated A100s."""
    from qwenhost.lab.simulator import install

    with tempfile.TemporaryDirectory() as folder:
        install(Path(folder), "a100-sxm4-80gb", 8)
        yield {"A100SIM_ROOT": folder, "LD_LIBRARY_PATH": f"{folder}/usr/lib/x86_64-linux-gnu"}


def compare(
    name: str, measured: Callable[[], None], baseline: str, bare: Callable[[], None], rounds: int = 7
) -> None:
    """Print both times and their ratio."""
    times = [(_seconds(bare), _seconds(measured)) for _ in range(rounds)]
    one, other = (min(column) for column in zip(*times, strict=True))
    print(f"{name}: {other:.3f} s = {other / one:.1f} x {baseline} ({one:.3f} s)", flush=True)


def _run(*command: str, environment: Mapping[str, str] | None = None) -> Callable[[], None]:
    def run() -> None:
        done = subprocess.run(command, capture_output=True, env={**os.environ, **(environment or {})})
        if done.returncode not in (0, 1, 3):
            raise SystemExit(done.stderr.decode())

    return run


def _seconds(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()

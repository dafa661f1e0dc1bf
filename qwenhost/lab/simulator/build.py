"""Compiles the simulated libnvidia-ml.so.1 once per version of its source."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from qwenhost.records.errors import FAILED, QwenhostError

CACHE = Path("/var/cache/qwenhost-lab")
NATIVE = Path(__file__).parent / "native"
WARNINGS = ("-Wall", "-Wextra", "-Werror")
FLAGS = ("-std=gnu11", "-O2", *WARNINGS, "-fPIC", "-shared", "-Wl,-soname,libnvidia-ml.so.1")


def library() -> Path:
    """Return the compiled library, from the cache where its source has not changed. Raises QwenhostError."""
    sources = sorted(NATIVE.glob("*.c"))
    target = CACHE / f"libnvidia-ml-{_digest()}.so"
    if not target.exists():
        _compile(sources, target)
    return target


def _digest() -> str:
    digest = hashlib.sha256(" ".join(FLAGS).encode())
    for source in sorted(NATIVE.iterdir()):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _compile(sources: list[Path], target: Path) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise QwenhostError("the lab needs a C compiler for its NVML", hint="Install gcc.", exit_code=FAILED)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f"{target.name}.", dir=target.parent)
    os.close(handle)
    command = [compiler, *FLAGS, *map(str, sources), "-o", name, "-lpthread"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        Path(name).unlink()
        reason = done.stderr.strip()[:400]
        raise QwenhostError(f"gcc failed on the simulated NVML: {reason}", exit_code=FAILED)
    Path(name).chmod(0o755)
    Path(name).replace(target)

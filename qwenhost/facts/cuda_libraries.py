"""Which CUDA driver library programs find first."""

from __future__ import annotations

import re
from dataclasses import dataclass

from qwenhost.facts.registry import parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import command

CACHE = command("ldconfig", "ldconfig", "-p", looks_like=r"\b\d+ libs found in cache")


@dataclass(frozen=True)
class CudaLibraries:
    """Paths of libcuda.so.1 in the linker's cache; the first one is used, unless LD_LIBRARY_PATH names another."""

    libcuda: tuple[str, ...]

    @property
    def compat(self) -> str:
        """Path of a forward-compatibility library that comes first, empty otherwise."""
        first = self.libcuda[0] if self.libcuda else ""
        return first if "/compat/" in first else ""

    @property
    def compat_cuda(self) -> str:
        """CUDA version of that library, such as "13.0", empty where its folder names none."""
        found = re.search(r"/cuda-(\d+\.\d+)/", self.compat)
        return found[1] if found else ""


@parses(CACHE)
def libraries_in_cache(capture: Capture) -> CudaLibraries:
    """Parse `ldconfig -p`."""
    if not CACHE.recognises(capture.text):
        raise Unparsable("no cache in it")
    rows = r"^\s*libcuda\.so\.1 \([^)]*(?:x86-64|AArch64)[^)]*\) => (\S+)"
    return CudaLibraries(tuple(re.findall(rows, capture.text, re.MULTILINE)))

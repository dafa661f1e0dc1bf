"""What is sent to hosts: the probe and the hands, each as one zipapp that any Python 3.8 runs."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from functools import cache
from importlib import resources

START = "from qwenhost.{package}.main import main\n\nmain()\n"

EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The zip format's first date: the same code gives the same bytes."""


@cache
def probe_zipapp() -> bytes:
    """Return the probe with NVML's Python bindings."""
    return _zipapp("probe")


@cache
def hands_zipapp() -> bytes:
    """Return the hands with NVML's Python bindings."""
    return _zipapp("hands")


def _zipapp(package: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_entry("__main__.py"), START.format(package=package))
        for name, content in _modules(package):
            archive.writestr(_entry(name), content)
    return buffer.getvalue()


def _modules(package: str) -> Iterator[tuple[str, bytes]]:
    """Return the files of the package, the top package's own, and pynvml."""
    import pynvml

    root = resources.files("qwenhost")
    yield "qwenhost/__init__.py", root.joinpath("__init__.py").read_bytes()
    with open(str(pynvml.__file__), "rb") as bindings:
        yield "pynvml.py", bindings.read()
    for item in sorted(root.joinpath(package).iterdir(), key=lambda item: item.name):
        if item.name.endswith(".py"):
            yield f"qwenhost/{package}/{item.name}", item.read_bytes()


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, EARLIEST)
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry

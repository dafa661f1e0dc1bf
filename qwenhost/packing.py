"""Archives that a host runs with its own `python3`: the probe reads, the hands change, trials load its GPUs."""

from __future__ import annotations

import importlib.util
import io
import zipfile
from functools import cache
from pathlib import Path

from qwenhost.records.errors import FAILED, QwenhostError

PACKAGE = Path(__file__).parent
OLDEST_ZIP_TIME = (1980, 1, 1, 0, 0, 0)
ROOT_INIT = '"""The part of qwenhost that runs on a host."""\n'
READS_NVML = ("probe", "hands")
ENTRY = "from qwenhost.{part}.main import main\n\nmain()\n"


@cache
def probe_zipapp() -> bytes:
    """Return the probe as a zipapp: `python3 probe.pyz < request.json > bundle.json`."""
    return _zipapp("probe")


@cache
def hands_zipapp() -> bytes:
    """Return the hands as a zipapp: `python3 hands.pyz ACT [--check] < request.json`."""
    return _zipapp("hands")


@cache
def trials_zipapp() -> bytes:
    """Return the trials as a zipapp: `python3 trials.pyz < request.json > bundle.json`."""
    return _zipapp("trials")


def _zipapp(part: str) -> bytes:
    """Return the same bytes for the same files, so that copies can be compared by content."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in sorted(_members(part).items()):
            entry = zipfile.ZipInfo(name, OLDEST_ZIP_TIME)
            entry.create_system = 3  # Unix, whatever system packs
            entry.external_attr = 0o100644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content, compresslevel=9)
    return buffer.getvalue()


def _members(part: str) -> dict[str, bytes]:
    folder = PACKAGE / part
    members = {f"qwenhost/{part}/{path.name}": path.read_bytes() for path in folder.glob("*.py")}
    members["qwenhost/__init__.py"] = ROOT_INIT.encode()
    members["__main__.py"] = ENTRY.format(part=part).encode()
    if part in READS_NVML:
        members["pynvml.py"] = _pynvml().read_bytes()
    return members


def _pynvml() -> Path:
    found = importlib.util.find_spec("pynvml")
    if found is None or not found.origin:
        raise QwenhostError(
            "pynvml is not installed beside qwenhost", hint="pip install nvidia-ml-py", exit_code=FAILED
        )
    return Path(found.origin)

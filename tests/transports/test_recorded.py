"""Recorded bundles in every wrapping, and wrappings that mean harm."""

from __future__ import annotations

import gzip
import io
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from qwenhost.records.bundle import Bundle, Capture
from qwenhost.records.errors import BadData, QwenhostError
from qwenhost.transports import recorded
from qwenhost.transports.recorded import read

VERSION = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23 10:11:16 UTC 2025\n"
LISTING = "GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-6d5b8c1e-0000-4000-8000-00000000000a)\n"
FILES = {"first.txt": VERSION, "deep/second.log": LISTING, "notes.md": "nothing of a host\n"}
SEEN = {"proc-driver-nvidia-version", "nvidia-smi-L"}


def sources(bundle: Bundle) -> set[str]:
    return {item.source for item in bundle.captures}


def tar_of(files: dict[str, str], mode: str = "w") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


def zip_of(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()


def test_a_folder_is_told_by_content(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    bundle = read(str(tmp_path))
    assert sources(bundle) == SEEN
    assert bundle.unrecognised == ("notes.md",)
    assert {item.origin for item in bundle.captures} == {"first.txt", "deep/second.log"}


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(tar_of(FILES), id="tar"),
        pytest.param(tar_of(FILES, "w:gz"), id="tar.gz"),
        pytest.param(zip_of(FILES), id="zip"),
        pytest.param(gzip.compress((VERSION + LISTING).encode()), id="gz"),
        pytest.param((VERSION + LISTING).encode(), id="file"),
        pytest.param((VERSION + LISTING).encode("utf-16"), id="utf-16"),
        pytest.param((VERSION + LISTING).replace("\n", "\r\n").encode(), id="crlf"),
    ],
)
def test_wrappings(tmp_path: Path, content: bytes) -> None:
    place = tmp_path / "anything"
    place.write_bytes(content)
    assert sources(read(str(place))) == SEEN


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(tar_of(FILES, "w:gz"))))
    assert sources(read("-")) == SEEN


def test_a_bundle_of_our_own(tmp_path: Path) -> None:
    own = Bundle("host7", (Capture("nvidia-smi-L", "timeout", error="no answer"),), "2026-11-30T10:00:00Z")
    (tmp_path / "bundle.json.gz").write_bytes(gzip.compress(own.to_json().encode()))
    assert read(str(tmp_path / "bundle.json.gz")) == own


def test_a_newer_bundle_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "bundle.json"
    place.write_text(Bundle("host7", ()).to_json().replace('"schema": 1', '"schema": 99'))
    with pytest.raises(BadData, match="99"):
        read(str(place))


def test_a_bug_report_is_read_by_sections(tmp_path: Path) -> None:
    rule = "_" * 44
    report = (
        f"{rule}\n\nStart of NVIDIA bug report log file.\n\n{rule}\n\n*** /proc/driver/nvidia/version\n"
        f"*** ls: -r--r--r-- 1 root root 0 2026-11-30 /proc/driver/nvidia/version\n{VERSION}\n{rule}\n\n"
        f"/usr/bin/nvidia-smi -L\n\n{LISTING}\n{rule}\n"
    )
    (tmp_path / "nvidia-bug-report.log.gz").write_bytes(gzip.compress(report.encode()))
    found = {item.source: item for item in read(str(tmp_path)).captures}
    assert set(found) == SEEN
    assert found["nvidia-smi-L"].origin == "nvidia-bug-report.log: /usr/bin/nvidia-smi -L"
    assert found["nvidia-smi-L"].text.strip() == LISTING.strip()


def test_a_report_that_was_cut_short_counts_as_far_as_it_goes(tmp_path: Path) -> None:
    whole = gzip.compress((VERSION + "filler\n" * 5000).encode())
    (tmp_path / "cut.gz").write_bytes(whole[:-12])
    assert sources(read(str(tmp_path))) == {"proc-driver-nvidia-version"}


def test_members_that_are_no_files_are_left_out(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        link = tarfile.TarInfo("passwd")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
        outside = tarfile.TarInfo("../../outside.txt")
        outside.size = len(VERSION)
        archive.addfile(outside, io.BytesIO(VERSION.encode()))
    (tmp_path / "a.tar").write_bytes(buffer.getvalue())
    bundle = read(str(tmp_path / "a.tar"))
    assert [item.origin for item in bundle.captures] == ["../../outside.txt"]
    assert list(tmp_path.parent.glob("outside.txt")) == []


@pytest.mark.parametrize("wrap", [gzip.compress, lambda content: zip_of({"big.txt": content.decode()})])
def test_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrap: object) -> None:
    monkeypatch.setattr(recorded, "LIMIT_FILE_BYTES", 10_000)
    (tmp_path / "bomb").write_bytes(wrap(b"0" * 1_000_000))  # type: ignore[operator]
    with pytest.raises(QwenhostError, match="larger than"):
        read(str(tmp_path / "bomb"))


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded, "LIMIT_FILES", 2)
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text(VERSION)
    with pytest.raises(QwenhostError, match="3 files"):
        read(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [("a.zip", b"PK\x03\x04 and no more", "broken archive"), ("a.gz", b"\x1f\x8b\x08nonsense", "broken archive")],
)
def test_broken_archives(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadData, match=message):
        read(str(tmp_path / name))


def test_nothing_there() -> None:
    with pytest.raises(QwenhostError, match="no such file"):
        read("/nonexistent/bundle")

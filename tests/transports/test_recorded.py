"""Recorded bundles in every wrapping, and wrappings that mean harm."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from qwenhost.records.bundle import Bundle, Capture
from qwenhost.records.errors import BadData, QwenhostError
from qwenhost.transports import excerpts, opening, recorded, unpacking
from qwenhost.transports.recorded import LEFT_OUT, read

VERSION = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23 10:11:16 UTC 2025\n"
LISTING = "GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-6d5b8c1e-0000-4000-8000-00000000000a)\n"
FILES = {"first.txt": VERSION, "deep/second.log": LISTING, "notes.md": "nothing of a host\n"}
SEEN = {"proc-driver-nvidia-version", "nvidia-smi-L"}


def sources(bundle: Bundle) -> set[str]:
    return {item.source for item in bundle.captures}


def tar_of(files: dict[str, str] | dict[str, bytes], mode: str = "w") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for name, text in files.items():
            content = text if isinstance(text, bytes) else text.encode()
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
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
        pytest.param(tar_of(FILES, "w:xz"), id="tar.xz"),
        pytest.param(tar_of(FILES, "w:bz2"), id="tar.bz2"),
        pytest.param(zip_of(FILES), id="zip"),
        pytest.param(gzip.compress((VERSION + LISTING).encode()), id="gz"),
        pytest.param(gzip.compress(VERSION.encode()) + gzip.compress(LISTING.encode()), id="gz in parts"),
        pytest.param(lzma.compress(VERSION.encode()) + lzma.compress(LISTING.encode()), id="xz in parts"),
        pytest.param(bz2.compress((VERSION + LISTING).encode()), id="bz2"),
        pytest.param(
            tar_of({"a.log.gz": gzip.compress(VERSION.encode()), "b.zip": zip_of({"b": LISTING})}, "w:gz"),
            id="nested",
        ),
        pytest.param((VERSION + LISTING).encode(), id="file"),
        pytest.param((VERSION + LISTING).encode("utf-16"), id="utf-16"),
        pytest.param((VERSION + LISTING).replace("\n", "\r\n").encode(), id="crlf"),
    ],
)
def test_wrappings(tmp_path: Path, content: bytes) -> None:
    place = tmp_path / "anything"
    place.write_bytes(content)
    assert sources(read(str(place))) == SEEN


@pytest.mark.parametrize("content", [tar_of(FILES, "w:gz"), zip_of(FILES), (VERSION + LISTING).encode()])
def test_standard_input(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
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


def test_what_is_no_file_in_a_tar_is_left_out_by_name(tmp_path: Path) -> None:
    kinds = {
        "hard": tarfile.LNKTYPE,
        "soft": tarfile.SYMTYPE,
        "device": tarfile.CHRTYPE,
        "block": tarfile.BLKTYPE,
        "pipe": tarfile.FIFOTYPE,
        "holes": tarfile.GNUTYPE_SPARSE,
    }
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name, kind in kinds.items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc/passwd"
            archive.addfile(member)
    assert read(str(tmp_path / "a.tar")).unrecognised == tuple(
        f"{name} (link, device or sparse file)" for name in kinds
    )


def test_links_are_not_followed_out_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text(VERSION)
    place = tmp_path / "case"
    place.mkdir()
    (place / "inside.txt").write_text(LISTING)
    links = {"a": "inside.txt", "b": "../outside.txt", "c": "nowhere", "d": "d", "e": "..", "f": "."}
    for name, target in links.items():
        (place / name).symlink_to(target)
    os.mkfifo(place / "pipe")  # reading it would wait for ever
    bundle = read(str(place))
    assert [item.origin for item in bundle.captures] == ["a", "inside.txt"]
    assert set(bundle.unrecognised) == {
        *("b (link out of the folder)", "c (no file)", "d (no file)"),
        *("e (link to a folder)", "f (link to a folder)", "pipe (no file)"),
    }


def test_names_that_would_break_a_line_are_told_on_one(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(tar_of({"x\n\x1b[31mFAIL: \udcff": "nothing of a host\n"}))
    assert read(str(tmp_path / "a.tar")).unrecognised == ("x\ufffd\ufffd[31mFAIL: \ufffd",)


def test_zip_members_that_cannot_be_read_are_left_out_by_name(tmp_path: Path) -> None:
    content = bytearray(zip_of({"secret.txt": VERSION, "deflate64.txt": VERSION, "open.txt": LISTING}))
    first = content.index(b"PK\x01\x02")
    second = content.index(b"PK\x01\x02", first + 1)
    content[first + 8] |= 1  # encrypted
    content[second + 10] = 9  # a method that the library does not know
    (tmp_path / "a.zip").write_bytes(content)
    bundle = read(str(tmp_path / "a.zip"))
    assert sources(bundle) == {"nvidia-smi-L"}
    assert bundle.unrecognised == ("secret.txt (encrypted)", "deflate64.txt (compressed by method 9)")


def test_a_broken_file_does_not_hide_the_others(tmp_path: Path) -> None:
    broken = tmp_path / "case.tar"
    broken.write_bytes(tar_of({"a.gz": b"\x1f\x8b\x08nonsense", "b.zip": b"PK\x03\x04", "c": VERSION.encode()}))
    bundle = read(str(broken))
    assert sources(bundle) == {"proc-driver-nvidia-version"}
    assert [name.partition(" ")[0] for name in bundle.unrecognised] == ["a.gz", "b.zip"]
    assert all("broken archive" in name for name in bundle.unrecognised)


def test_a_tar_that_was_cut_short_counts_as_far_as_it_goes(tmp_path: Path) -> None:
    whole = tar_of({"a.txt": VERSION, "b.txt": LISTING * 2000, "c.txt": VERSION})
    (tmp_path / "cut.tar").write_bytes(whole[: whole.index(LISTING.encode()) + 60000])
    bundle = read(str(tmp_path / "cut.tar"))
    assert sources(bundle) == SEEN
    assert "b.txt: read up to where it is broken" in bundle.notes[LEFT_OUT]


def test_archives_in_archives_end_somewhere(tmp_path: Path) -> None:
    content = VERSION.encode()
    for _ in range(opening.LIMIT_LAYERS + 1):
        content = gzip.compress(content)
    (tmp_path / "onion").write_bytes(content)
    assert read(str(tmp_path / "onion")).unrecognised == ("onion (archives within archives: 6 layers at most)",)


@pytest.mark.parametrize(
    "wrap", [gzip.compress, bz2.compress, lzma.compress, lambda content: zip_of({"a": content})]
)
def test_bombs_are_read_to_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrap: Callable[[bytes], bytes]
) -> None:
    monkeypatch.setattr(unpacking, "LIMIT_READ_BYTES", 2_000_000)
    monkeypatch.setattr(unpacking.Ledger, "__init__", lambda ledger: _limited(ledger, 2_000_000))
    (tmp_path / "bomb").write_bytes(wrap(b"0" * 20_000_000))
    bundle = read(str(tmp_path / "bomb"))
    assert "reading ended after 1 MiB" in bundle.notes[LEFT_OUT]
    assert bundle.captures == ()


def _limited(ledger: unpacking.Ledger, unread_bytes: int) -> None:
    ledger.files, ledger.unread_bytes, ledger.left_out, ledger.notes = 10, unread_bytes, [], []


def test_headers_that_would_fill_the_memory_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "LIMIT_TAR_HEADER_BYTES", 1000)
    (tmp_path / "a.tar").write_bytes(tar_of({"n" * 2000: VERSION}))
    with pytest.raises(BadData, match="header is too large"):
        read(str(tmp_path / "a.tar"))
    monkeypatch.setattr(unpacking, "LIMIT_DIRECTORY_BYTES", 1000)
    (tmp_path / "a.zip").write_bytes(zip_of({"n" * 2000: VERSION}))
    with pytest.raises(BadData, match="list of members is too long"):
        read(str(tmp_path / "a.zip"))


@pytest.mark.parametrize("wrapped", [True, False])
def test_of_too_many_files_the_first_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrapped: bool
) -> None:
    monkeypatch.setattr(unpacking.Ledger, "__init__", lambda ledger: _limited(ledger, 10**9))
    names = [f"{number:02}.txt" for number in range(12)]
    place = tmp_path / "case"
    if wrapped:
        place.write_bytes(tar_of(dict.fromkeys(names, VERSION)))
    else:
        place.mkdir()
        for name in names:
            (place / name).write_text(VERSION)
    bundle = read(str(place))
    assert len(bundle.captures) == 10
    assert [name.partition(" (and all after it")[0] for name in bundle.unrecognised] == ["10.txt"]


def test_strangers_without_end_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(tar_of({f"{number}": "x" for number in range(recorded.LIMIT_NAMES + 5)}))
    assert read(str(tmp_path / "a.tar")).unrecognised[-1] == "and 5 more"


def test_a_log_with_zeros_of_a_crash_is_text_and_a_program_is_not(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(f"{VERSION}{'quiet' + chr(10)}" * 20 + "\0" * 4096 + "\n")
    (tmp_path / "program").write_bytes(b"".join(b"\0%d\n" % number for number in range(50)) + VERSION.encode())
    bundle = read(str(tmp_path))
    assert [item.origin for item in bundle.captures] == ["log"]
    assert bundle.unrecognised == ("program",)


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


def test_what_is_neither_file_nor_folder() -> None:
    with pytest.raises(QwenhostError, match="neither file, folder nor pipe"):
        read("/dev/zero")


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits of a thousandth."""
    for name in ("CHUNK_BYTES", "WHOLE_BYTES", "JSON_BYTES", "HEAD_BYTES", "TAIL_BYTES", "WORD_BYTES"):
        monkeypatch.setattr(excerpts, name, getattr(excerpts, name) // 1024)


XID = "NVRM: Xid (PCI:0000:4e:00): 79, pid=1, GPU has fallen off the bus."


def long_log(lines: int = 2000) -> str:
    said = [f"usb 1-1: device number {number}" for number in range(lines)]
    said[lines // 2] = XID
    return "".join(f"[{number:12.6f}] {text}\n" for number, text in enumerate(said))


@pytest.mark.usefixtures("short")
def test_of_a_long_log_the_lines_that_tell_are_kept(tmp_path: Path) -> None:
    (tmp_path / "dmesg").write_text(long_log())
    bundle = read(str(tmp_path / "dmesg"))
    [capture] = [item for item in bundle.captures if item.source == "dmesg"]
    assert capture.truncated
    assert XID in capture.text
    assert long_log().startswith(capture.text[:3000])
    assert long_log().endswith(capture.text[-7000:])
    assert len(capture.text) < 20_000
    assert set(capture.text.splitlines()) <= set(long_log().splitlines())
    assert bundle.notes[LEFT_OUT].startswith("dmesg: of 0 MiB the start, the end and lines")


@pytest.mark.usefixtures("short")
def test_a_flood_of_one_message_leaves_room_for_others(tmp_path: Path) -> None:
    flood = "[    1.000000] pcieport 0000:40:01.1: AER: Corrected error received\n" * 500
    (tmp_path / "dmesg").write_text(flood + f"[    2.000000] {XID}\n" + flood)
    [capture] = [item for item in read(str(tmp_path)).captures if item.source == "dmesg"]
    assert XID in capture.text


@pytest.mark.usefixtures("short")
def test_a_long_section_does_not_cut_the_others(tmp_path: Path) -> None:
    rule = "_" * 44
    report = f"{rule}\n\n/usr/bin/dmesg\n\n{long_log()}\n{rule}\n\n/usr/bin/nvidia-smi -L\n\n{LISTING * 200}"
    (tmp_path / "report.log").write_text(report)
    cut = {item.source: item.truncated for item in read(str(tmp_path)).captures}
    assert cut == {"dmesg": True, "nvidia-smi-L": False}


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("text", ["x" * 100_000, "Xid" * 40_000, "\n" * 90_000, "é\n" * 50_000])
def test_long_texts_of_odd_shape(tmp_path: Path, text: str) -> None:
    (tmp_path / "odd").write_text(text)
    assert read(str(tmp_path)).unrecognised == ("odd",)


@pytest.mark.usefixtures("short")
def test_a_bundle_of_our_own_is_whole_or_refused(tmp_path: Path) -> None:
    for size in (20_000, 40_000):
        own = Bundle("host7", (Capture("dmesg", "ok", "y\n" * (size // 2)),))
        (tmp_path / "bundle.json").write_text(own.to_json())
        if size == 20_000:
            assert read(str(tmp_path)) == own
    with pytest.raises(QwenhostError, match="too many for a bundle"):
        read(str(tmp_path))


def test_captures_together_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded, "LIMIT_KEPT_BYTES", len(VERSION) + 1)
    (tmp_path / "a").write_text(VERSION)
    (tmp_path / "b").write_text(VERSION)
    bundle = read(str(tmp_path))
    assert [item.origin for item in bundle.captures] == ["a"]
    assert [name for name in bundle.unrecognised if name.startswith("b (more than")]

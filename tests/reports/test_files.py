"""Reports are written whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from qwenhost.reports.files import PRIVATE, write_whole


def test_a_file_is_replaced_and_has_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "report.prom"
    path.write_text("old")
    write_whole(path, "new \u2713\n")
    assert path.read_text(encoding="utf-8") == "new \u2713\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    write_whole(path, "", PRIVATE)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_when_writing_fails_the_old_file_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "report.xml"
    path.write_text("old")
    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link_and_a_pipe_is_written_to(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_whole(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    write_whole(Path(os.devnull), "new")
    assert not Path(os.devnull).is_file()

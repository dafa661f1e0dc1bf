"""What a run and its play hand each other: once in, the last one out, and only where there is a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from qwenhost.records.bundle import Bundle, Capture
from qwenhost.workflows import handed

HOST = "rack/1 a"


def bundle(at: str) -> Bundle:
    return Bundle(HOST, (Capture("uptime", "ok", "1 2"),), at)


def test_what_is_given_is_received_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = handed.give(tmp_path / "bundles", [bundle("before")])
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert (tmp_path / "bundles").stat().st_mode & 0o777 == 0o700
    assert handed.receive("another") is None
    assert handed.receive(HOST) == bundle("before")
    assert handed.receive(HOST) is None


def test_the_last_one_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "bundles"
    monkeypatch.setenv(*next(iter(handed.give(folder, [bundle("before")]).items())))
    assert list(handed.taken(folder, [HOST])) == [], "what was given is not what the play took"
    handed.note(bundle("between"))
    handed.note(bundle("after"))
    assert list(handed.taken(folder, [HOST, "another"])) == [bundle("after")]


def test_a_play_of_its_own_is_given_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(handed.FOLDER, raising=False)
    handed.note(bundle("after"))
    assert handed.receive(HOST) is None

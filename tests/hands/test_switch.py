"""A switch of versions: kept until proven, taken back byte by byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hands.conftest import Hands

CURRENT = "opt/qwenhost/vllm/current"
STATE = "var/lib/qwenhost/vllm"


@pytest.fixture
def serving(root: Path) -> Path:
    """A host that serves with 0.32.0."""
    for folder in ("etc/qwenhost/vllm", "etc/qwenhost/other", "opt/qwenhost/vllm", STATE):
        (root / folder).mkdir(parents=True)
    (root / CURRENT).symlink_to("0.32.0")
    (root / "etc/qwenhost/vllm/main.yaml").write_text("port: 8000\n")
    (root / "etc/qwenhost/vllm/api_key").write_text("secret\n")
    (root / "etc/qwenhost/other/file").write_text("1\n")
    return root


def switch(root: Path) -> None:
    (root / CURRENT).unlink()
    (root / CURRENT).symlink_to("0.33.0")
    (root / "etc/qwenhost/vllm/main.yaml").write_text("port: 8000\nnew-option: true\n")
    (root / "etc/qwenhost/vllm/second.yaml").write_text("port: 8001\n")
    (root / "etc/qwenhost/other/file").write_text("2\n")


def told(hands: Hands, act: str) -> str:
    ran = hands(act, {"to": "0.33.0"})
    assert ran.status == 0, ran.answer
    return str(ran.answer.get("kept"))


def test_what_fails_is_taken_back(hands: Hands, serving: Path) -> None:
    assert told(hands, "switch-keep") == "0.32.0"
    assert (serving / STATE / "before-switch.json").stat().st_mode & 0o777 == 0o600
    assert (serving / STATE / "unproven").read_text() == "0.33.0 in place of 0.32.0\n"
    switch(serving)
    told(hands, "switch-back")
    assert (serving / CURRENT).readlink() == Path("0.32.0")
    assert (serving / "etc/qwenhost/vllm/main.yaml").read_text() == "port: 8000\n"
    assert not (serving / "etc/qwenhost/vllm/second.yaml").exists()
    assert (serving / "etc/qwenhost/other/file").read_text() == "2\n", "no part of what serves"
    assert list((serving / STATE).iterdir()) == []


def test_an_interrupted_switch_still_goes_back_to_what_was_proven(hands: Hands, serving: Path) -> None:
    told(hands, "switch-keep")
    switch(serving)
    assert told(hands, "switch-keep") == "0.32.0"
    told(hands, "switch-prove")
    assert list((serving / STATE).iterdir()) == []
    assert told(hands, "switch-keep") == ""


def test_without_a_switch_nothing_is_kept(hands: Hands, serving: Path) -> None:
    assert hands("switch-keep", {"to": "0.32.0"}).answer["kept"] == ""
    (serving / CURRENT).unlink()
    assert told(hands, "switch-keep") == ""
    assert hands("switch-back", {}).answer["error"] == "switch-back: nothing was kept to go back to"

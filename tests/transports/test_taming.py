"""What enters is tame: no line, and no run of blank lines, that an expression gets lost in."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from qwenhost.records.bundle import Bundle, Capture
from qwenhost.transports.excerpts import LINE_CHARACTERS
from qwenhost.transports.request import read_answer

LONG = "x" * (3 * LINE_CHARACTERS)


def answered(text: str) -> str:
    """Return the text of a host's answer as it comes out of the transport."""
    bundle = Bundle("h1", (Capture("dmesg", "ok", text),))
    return read_answer("h1", bundle.to_json().encode()).captures[0].text


@pytest.mark.parametrize(
    "text", ["", "short\n", '{"/etc/fstab": "a\\n"}', "{ no JSON\n", "\n\n\n", f"{'line' * 9}\n" * 900]
)
def test_ordinary_answers_stay_as_they_are(text: str) -> None:
    assert answered(text) == text


@pytest.mark.parametrize("text", [LONG, "{" + LONG, f"start\n{LONG}\nend"])
def test_long_lines_are_broken_up(text: str) -> None:
    tame = answered(text)
    assert max(map(len, tame.split("\n"))) == LINE_CHARACTERS
    assert tame.replace("\n", "") == text.replace("\n", "")


@pytest.mark.parametrize("wrap", [lambda text: {"path": text}, lambda text: {"devices": [{"name": text}], "n": 1}])
def test_long_lines_inside_of_json_are_broken_up(wrap: Callable[[str], Any]) -> None:
    tame = json.loads(answered(json.dumps(wrap(LONG))))
    assert tame == wrap("\n".join([LONG[:LINE_CHARACTERS]] * 3))


def test_endless_blank_lines_are_cut() -> None:
    assert answered("a\n" + "\n" * 5000 + "b").count("\n") < 250

"""What a regular expression needs, and that a source is recognised no differently by it."""

from __future__ import annotations

import re

import pytest

from qwenhost.facts.registry import sources
from qwenhost.records import source as records
from qwenhost.records.literals import needed
from qwenhost.records.source import recorded
from tests.checks.conftest import HEALTHY


@pytest.mark.parametrize(
    ("pattern", "literals"),
    [
        (r"^NVRM version: \d", ("NVRM version: ",)),
        (r"^\s*(?:NTP|Leap) \w+", ("NTP", "Leap")),
        (r"Error 80[24]\b", ("Error 80",)),
        (r"GPU(?: is)? lost", (" lost",)),
        (r"(?:Mem:\s+)+\d", ("Mem:",)),
        (r"^(?=.*Mem:)\w", ("Mem:",)),
        (r"^(?!.*Mem:)\w", ()),
        (r"(?:a\d|\d)", ()),
        (r"(?i)nvidia", ()),
        (r"(?i:nvidia)\d", ()),
        (r"\d+", ()),
        ("", ()),
    ],
)
def test_needed(pattern: str, literals: tuple[str, ...]) -> None:
    assert needed(pattern) == literals


def test_large_texts_are_recognised_as_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [path.read_text() for path in sorted(HEALTHY.iterdir())]
    plain = {source.name: [source.recognises(text) for text in texts] for source in sources()}
    monkeypatch.setattr(records, "LARGE", 0)
    assert {source.name: [source.recognises(text) for text in texts] for source in sources()} == plain
    assert any(any(found) for found in plain.values())


def test_a_large_text_without_the_literal_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(re, "search", None)
    assert not recorded("x", looks_like=r"^\s*Sought: \d").recognises("a line\n" * records.LARGE)

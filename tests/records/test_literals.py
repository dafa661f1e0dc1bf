"""What a regular expression needs, and that a source is recognised no differently by it."""

from __future__ import annotations

from pathlib import Path

import pytest

from qwenhost.facts.registry import sources
from qwenhost.records import source
from qwenhost.records.literals import Gist, needed
from qwenhost.transports import recorded
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


@pytest.mark.parametrize(
    ("pattern", "text", "possible"),
    [
        (r"^hca\d+ port \d+ ==> ", "of hca7 port 3\n", False),
        (r"^hca\d+ port \d+ ==> ", "hca7 port 3 ==> up\n", True),
        (r"^Error 80[24]\b", "an Error 7\n", False),
        (r"^Error 80[24]\b", "Error 805\n", True),  # digits are alike here; the expression itself decides
        (r"one\ntwo", "two\none\n", True),
        (r"one\n+two", "one\n", False),
        (r"(?:lo: \d|eth\d).*UP", "eth9: DOWN\n", False),
        (r"(?:lo: \d|eth\d).*UP", "eth9: UP\n", True),
        (r"\d", "", True),
    ],
)
def test_what_may_match(pattern: str, text: str, possible: bool) -> None:
    assert Gist(text.encode()).may_match(pattern) is possible


def test_lines_with_a_word_are_found_by_their_shape() -> None:
    text = b"a 17\nXid 31, 7\na 18\nXid 32, 8\nXid 315\nlast Xid 3"
    assert sorted(Gist(text).starts("Xid 31")) == [5, 20, 30]
    assert [*Gist(text).starts("last")] == [38]
    assert [*Gist(text).starts("other")] == [*Gist(b"").starts("x")] == []


def test_what_is_recognised_may_match() -> None:
    texts = [path.read_text() for path in sorted(HEALTHY.iterdir())]
    for text in texts:
        gist = Gist(text.encode())
        recognised = [form for form in sources() if form.recognises(text)]
        assert all(gist.may_match(form.looks_like) for form in recognised)
    assert any(form.recognises(text) for form in sources() for text in texts)


def test_a_large_text_without_the_literal_is_not_searched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "large.txt").write_text("a line\n" * recorded.LARGE)
    monkeypatch.setattr(recorded, "sources", lambda: (source.recorded("x", looks_like=r"^\s*Sought: \d"),))
    monkeypatch.setattr(source.Source, "recognises", None)
    assert recorded.read(str(tmp_path)).unrecognised == ("large.txt",)

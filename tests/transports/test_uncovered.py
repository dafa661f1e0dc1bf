"""Outputs that were passed on with something before each line."""

from __future__ import annotations

from pathlib import Path

import pytest

from qwenhost.transports.recorded import read
from qwenhost.transports.uncovered import uncovered, unquoted, unwrapped

TOLD = "GPU 00000000:4E:00.0\n    PCI\n        GPU Link Info\n            Link Width\n                Max : 16x\n"


@pytest.mark.parametrize(
    "before", ["> ", ">", "    ", "node7: ", "[node7] ", "node7 | ", "Dec  1 08:00:09 ", "2026-12-01T08:00:09.5Z "]
)
def test_a_cover_is_taken_off(before: str, tmp_path: Path) -> None:
    (tmp_path / "sent").write_text("".join(f"{before}{line}\n" for line in TOLD.splitlines()))
    (capture,) = read(str(tmp_path)).captures
    assert (capture.source, capture.text) == ("nvidia-smi-q", TOLD)


def test_numbered_lines(tmp_path: Path) -> None:
    (tmp_path / "sent").write_text("".join(f"{n:>6}\t{line}\n" for n, line in enumerate(TOLD.splitlines(), 1)))
    assert [capture.source for capture in read(str(tmp_path)).captures] == ["nvidia-smi-q"]


@pytest.mark.parametrize("text", [TOLD, "node7: a\nnode8: b\nnode7: c\n", "a: 1\n", "> a\nb\n", ""])
def test_other_text_stays(text: str) -> None:
    assert uncovered(text) == text
    assert unquoted(text) == text


LONG = "(EngineCore pid=9) ERROR 12-01 08:00:09 [core.py:11] ValueError: No available memory for the cache blocks."


def test_what_a_terminal_wrapped_is_one_piece_again() -> None:
    told = f"{LONG} One.\n{LONG} Another.\nshort\n"
    wrapped = "".join(
        f"{line[:80]}\n{line[80:]}\n" if len(line) > 80 else f"{line}\n" for line in told.splitlines()
    )
    assert unwrapped(wrapped) == told


@pytest.mark.parametrize(
    "text", [f"{'x' * 80}\n{'y' * 80}\n{'z' * 81}\n", f"{'x' * 80}\nshort\n", f"|{' ' * 78}|\n" * 3, ""]
)
def test_lines_that_nothing_wrapped_stay(text: str) -> None:
    assert unwrapped(text) == text

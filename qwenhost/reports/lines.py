"""A line of text whose parts may carry a style; the style is used on a terminal only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """Parts of one line, each a text and the name of its style (empty: none)."""

    parts: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        """The line without styles."""
        return "".join(text for text, _ in self.parts).rstrip()


def line(*parts: str | tuple[str, str]) -> Line:
    """Make a line of plain and styled parts."""
    return Line(tuple((part, "") if isinstance(part, str) else part for part in parts))

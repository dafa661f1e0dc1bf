"""Reads the variables of one host; every refusal names where it was written, host and key."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from qwenhost.records.errors import QwenhostError

LONGEST = 300
"""Characters of what is said of a value, which may be a whole tree."""


@dataclass(frozen=True)
class Reader:
    """`where` is the inventory; `places` tells file and line of each variable where they are known."""

    host: str
    where: str = ""
    places: Mapping[str, str] = field(default_factory=dict)

    def refuse(self, key: str, what: str, hint: str = "") -> NoReturn:
        """Raise the error for one key."""
        variable = re.split(r"\W", key, maxsplit=1)[0]
        place = self.places.get(variable, self.where)
        told = what if len(what) <= LONGEST else f"{what[: LONGEST // 2]} ... {what[-LONGEST // 2 :]}"
        raise QwenhostError(f"{place + ': ' if place else ''}{self.host}: {key}: {told}", hint=hint)

    def once(self, key: str, names: Iterable[int]) -> None:
        """Refuse a number that stands twice, as 0 and "0" do."""
        seen: set[int] = set()
        for name in names:
            if name in seen:
                self.refuse(key, f"{name} stands twice")
            seen.add(name)

    def mapping(self, key: str, value: Any) -> Mapping[Any, Any]:
        """Return a mapping, or refuse."""
        if not isinstance(value, Mapping):
            self.refuse(key, f"{value!r} is no mapping")
        return value

    def integer(self, key: str, value: Any, low: int = 0, high: int = 2**31) -> int:
        """Return a whole number within its range, or refuse."""
        text = "" if isinstance(value, bool) else str(value)
        if not re.fullmatch(r"[0-9]{1,10}", text) or not low <= int(text) <= high:
            self.refuse(key, f"{value!r} is no whole number from {low} to {high}")
        return int(text)

    def share(self, key: str, value: Any) -> float:
        """Return a share above 0 and up to 1, or refuse."""
        try:
            share = 0.0 if isinstance(value, bool) else float(str(value))
        except ValueError:
            share = 0.0
        if not 0 < share <= 1:
            self.refuse(key, f"{value!r} is no share", "above 0 and up to 1, such as 0.9")
        return share

    def switch(self, key: str, value: Any) -> bool:
        """Return true or false, or refuse; as words, too, which is how a command line gives them."""
        known = {"true": True, "false": False}
        text = str(value).lower()
        if not isinstance(value, (bool, str)) or text not in known:
            self.refuse(key, f"{value!r} is neither true nor false", "write true or false, without quotes")
        return known[text]

    def text(self, key: str, value: Any) -> str:
        """Return a number or a text of one line, or refuse."""
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            self.refuse(key, f"{value!r} is neither text nor a number", "a switch is written 1 or 0")
        text = str(value).strip()
        if not text or "\n" in text:
            self.refuse(key, f"{value!r} is not one line of text")
        return text

    def version(self, key: str, value: Any) -> str:
        """Return a version with at least two numbers, or refuse; YAML has made 0.3 of an unquoted 0.30."""
        if isinstance(value, float):
            self.refuse(key, f"{value} is a number, no version", 'write it in quotes, such as "0.32.0"')
        text = self.text(key, value)
        if not re.fullmatch(r"\d+(\.\d+)+\w*(\+[\w.]+)?", text):
            self.refuse(key, f"{text!r} is no version", "such as 0.32.0, in quotes")
        return text

    def only(self, key: str, value: Mapping[Any, Any], known: Iterable[str]) -> None:
        """Refuse keys that nobody reads."""
        for name in map(str, value):
            if name not in known:
                self.refuse(f"{key}.{name}", "unknown", did_you_mean(name, known))


def did_you_mean(name: str, known: Iterable[str], prefix: str = "") -> str:
    """Return a hint with the nearest known name, or all of them; a `prefix` that all have makes none near."""
    plain = {known_name.lower().removeprefix(prefix): known_name for known_name in sorted(known)}
    asked = name.lower().replace("-", "_") if prefix else name.lower()
    close = difflib.get_close_matches(asked.removeprefix(prefix), plain, n=1)
    return f"did you mean {plain[close[0]]}?" if close else f"known: {', '.join(plain.values())}"

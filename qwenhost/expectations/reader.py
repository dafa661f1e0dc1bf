"""Reads the variables of one host; every refusal names where it was written, host and key."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from qwenhost.records.errors import QwenhostError


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
        raise QwenhostError(f"{place + ': ' if place else ''}{self.host}: {key}: {what}", hint=hint)

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

    def switch(self, key: str, value: Any) -> bool:
        """Return true or false, or refuse; as words, too, which is how a command line gives them."""
        known = {"true": True, "false": False}
        text = str(value).lower()
        if not isinstance(value, (bool, str)) or text not in known:
            self.refuse(key, f"{value!r} is neither true nor false")
        return known[text]

    def text(self, key: str, value: Any) -> str:
        """Return a number or a text of one line, or refuse."""
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            self.refuse(key, f"{value!r} is neither text nor a number")
        text = str(value).strip()
        if not text or "\n" in text:
            self.refuse(key, f"{value!r} is not one line of text")
        return text

    def version(self, key: str, value: Any) -> str:
        """Return a version with at least two numbers, or refuse."""
        text = self.text(key, value)
        if not re.fullmatch(r"\d+(\.\d+)+\w*(\+[\w.]+)?", text):
            self.refuse(key, f"{text!r} is no version", "such as 0.32.0, in quotes")
        return text

    def only(self, key: str, value: Mapping[Any, Any], known: Iterable[str]) -> None:
        """Refuse keys that nobody reads."""
        for name in map(str, value):
            if name not in known:
                self.refuse(f"{key}.{name}", "unknown", did_you_mean(name, known))


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint with the nearest known name, or all of them."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {close[0]}?" if close else f"known: {', '.join(names)}"

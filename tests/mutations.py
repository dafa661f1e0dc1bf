"""Damage to captures as hosts, terminals, editors and mail do it; seeded, so that a finding can be repeated."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from qwenhost.facts.registry import sources
from qwenhost.records.bundle import Bundle, Capture, Status
from qwenhost.records.literals import needed

Mutation = Callable[[random.Random, str, Sequence[str]], str]

STATUSES: tuple[Status, ...] = ("missing", "denied", "timeout", "failed")

NOISE = (
    "\x1b[31m",
    "\0",
    "\ufffd",
    "\r",
    "…",
    "é",
    "|",
    ":",
    "[[[",
    "}{",
    "N/A",
    "ERR!",
    "[Unknown Error]",
    "\t\t",
)
NUMBERS = ("-1", "0", "18446744073709551616", "9" * 400, "1e400", "nan", "inf", "0x", "٣", "3.14.15", "", "½")
VALUES: tuple[Any, ...] = (
    None,
    -1,
    0,
    1e308,
    "",
    "x",
    [],
    {},
    [[]],
    True,
    {"error": "GPU_IS_LOST"},
    2**70,
    [None],
)


def cut(dice: random.Random, text: str, _: Sequence[str]) -> str:
    return text[: dice.randrange(len(text) + 1)]


def headless(dice: random.Random, text: str, _: Sequence[str]) -> str:
    return text[dice.randrange(len(text) + 1) :]


def lines_lost(dice: random.Random, text: str, _: Sequence[str]) -> str:
    return "".join(line for line in text.splitlines(True) if dice.random() < 0.8)


def lines_twice(dice: random.Random, text: str, _: Sequence[str]) -> str:
    return "".join(line * dice.choice((1, 1, 2)) for line in text.splitlines(True))


def shuffled(dice: random.Random, text: str, _: Sequence[str]) -> str:
    lines = text.splitlines(True)
    dice.shuffle(lines)
    return "".join(lines)


def noisy(dice: random.Random, text: str, _: Sequence[str]) -> str:
    for _number in range(dice.randrange(1, 9)):
        place = dice.randrange(len(text) + 1)
        text = text[:place] + dice.choice(NOISE) + text[place + dice.randrange(3) :]
    return text


def renumbered(dice: random.Random, text: str, _: Sequence[str]) -> str:
    places = [place for place, sign in enumerate(text) if sign.isdigit()]
    for place in sorted(dice.sample(places, min(len(places), dice.randrange(1, 6))), reverse=True):
        text = text[:place] + dice.choice(NUMBERS) + text[place + 1 :]
    return text


def respaced(dice: random.Random, text: str, _: Sequence[str]) -> str:
    return dice.choice(
        (text.replace("\n", "\r\n"), text.replace("  ", "\t"), text.replace("\n", "\n\n"), " ".join(text.split()))
    )


def repeated(dice: random.Random, text: str, _: Sequence[str]) -> str:
    start = dice.randrange(len(text) + 1)
    piece = text[start : start + dice.randrange(1, 200)]
    return text[:start] + piece * min(20_000 // max(len(piece), 1), 2000) + text[start:]


def spliced(dice: random.Random, text: str, others: Sequence[str]) -> str:
    return cut(dice, text, ()) + headless(dice, dice.choice(others), ())


def exchanged(dice: random.Random, text: str, others: Sequence[str]) -> str:
    return dice.choice(others)


def in_json(dice: random.Random, text: str, _: Sequence[str]) -> str:
    """Change one value somewhere in a JSON document; leave other texts alone."""
    try:
        document = json.loads(text)
    except ValueError:
        return text
    here = document
    while isinstance(here, (dict, list)) and here:
        key = dice.choice(list(here)) if isinstance(here, dict) else dice.randrange(len(here))
        if not isinstance(here[key], (dict, list)) or not here[key] or dice.random() < 0.2:
            here[key] = dice.choice(VALUES)
            break
        here = here[key]
    return json.dumps(document)


MUTATIONS: tuple[Mutation, ...] = (
    *(cut, headless, lines_lost, lines_twice, shuffled, noisy, renumbered, respaced, repeated),
    *(spliced, exchanged, in_json, in_json),
)


def grown(bundle: Bundle) -> Bundle:
    """Return a bundle with something for every source: where it has none, words that its answers hold."""
    seen = {item.source for item in bundle.captures}
    bare = [source for source in sources() if source.name not in seen]
    made = tuple(Capture(source.name, "ok", _made_up(source.looks_like)) for source in bare)
    return replace(bundle, captures=(*bundle.captures, *made))


def _made_up(pattern: str) -> str:
    words = needed(pattern) if pattern else ()
    lines = (
        f"{word}: 1.2 GPU0 0000:07:00.0 = yes (x)\n{word} 5 error 7\n" for word in words or ("Id=x", "a 1 2 3")
    )
    return "".join(lines)


def mutated(dice: random.Random, bundle: Bundle, count: int) -> Bundle:
    """Damage `count` captures, one to three times each; some lose their answer instead."""
    captures = list(bundle.captures)
    texts = [item.text for item in captures]
    for number in dice.sample(range(len(captures)), min(count, len(captures))):
        captures[number] = _hurt(dice, captures[number], texts)
    return replace(bundle, captures=tuple(captures))


def _hurt(dice: random.Random, capture: Capture, texts: Sequence[str]) -> Capture:
    if dice.random() < 0.05:
        return replace(capture, status=dice.choice(STATUSES), error="made up")
    text = capture.text
    for _ in range(dice.randrange(1, 4)):
        text = dice.choice(MUTATIONS)(dice, text, texts)
    return replace(capture, text=text)

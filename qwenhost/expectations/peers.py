"""What is expected of a host because its peers have it: the value of a clear majority."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from qwenhost.expectations.tables import refuse_unknown, table
from qwenhost.records.peers import Majority, Peers

PATH = "fleet.yaml"
_KEYS = ("schema", "least_members", "least_majority_percent", "source")


def majorities(members: Sequence[Mapping[str, str]]) -> Peers:
    """Return, by trait, what most members have; members that do not tell a trait are not counted."""
    traits = dict.fromkeys(name for member in members for name in member)
    found = {name: majority([member[name] for member in members if name in member]) for name in traits}
    return {name: most for name, most in found.items() if most}


def majority(values: Sequence[str]) -> Majority | None:
    """Return the value of a clear majority of at least the least number of members, else None."""
    if len(values) < least_members():
        return None
    value, times = Counter(values).most_common(1)[0]
    clear = times * 100 >= len(values) * _rule()["least_majority_percent"]
    return Majority(value, times, len(values)) if clear else None


def least_members() -> int:
    """Return how many it takes to tell the odd one out. Raises BadData for a broken table."""
    return int(_rule()["least_members"])


def _rule() -> Mapping[str, Any]:
    refuse_unknown(PATH, table(PATH), _KEYS)
    return table(PATH)

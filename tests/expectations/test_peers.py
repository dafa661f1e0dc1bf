"""When most hosts have something alike."""

from __future__ import annotations

import pytest

from qwenhost.expectations.peers import majorities, majority


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ("a", None),
        ("aa", None),
        ("ab", None),
        ("aab", ("a", 2, 3)),
        ("abc", None),
        ("aabb", None),
        ("aaab", ("a", 3, 4)),
        ("aaabb", None),
        ("aaaabb", ("a", 4, 6)),
    ],
)
def test_a_majority_is_clear_and_of_enough(values: str, found: tuple[str, int, int] | None) -> None:
    most = majority(list(values))
    assert (None if most is None else (most.value, most.hosts, most.of)) == found


def test_who_does_not_tell_a_trait_is_not_counted() -> None:
    found = majorities([{"kernel": "6.8"}, {"kernel": "6.8", "BIOS": "1"}, {"kernel": "6.5"}, {}])
    assert set(found) == {"kernel"}
    assert found["kernel"].origin == "2 of 3 hosts of this run"

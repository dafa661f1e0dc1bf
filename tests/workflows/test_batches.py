"""How many hosts are changed at a time."""

from __future__ import annotations

import pytest

from qwenhost.records.errors import QwenhostError
from qwenhost.workflows.batches import batches

HOSTS = ("a", "b", "c", "d", "e")


@pytest.mark.parametrize(
    ("serial", "sizes"),
    [
        ("", [5]),
        ("1", [1, 1, 1, 1, 1]),
        ("2", [2, 2, 1]),
        ("9", [5]),
        ("40%", [2, 2, 1]),
        ("50%", [2, 2, 1]),
        ("10%", [1, 1, 1, 1, 1]),
        ("100%", [5]),
    ],
)
def test_batches_hold_every_host_once_in_order(serial: str, sizes: list[int]) -> None:
    made = batches(HOSTS, serial)
    assert [len(batch) for batch in made] == sizes
    assert tuple(host for batch in made for host in batch) == HOSTS


def test_no_hosts_are_no_batches() -> None:
    assert batches((), "2") == batches((), "") == ()


@pytest.mark.parametrize("serial", ["0", "-1", "two", "%", "1.5", "0%", "2 %"])
def test_other_forms_are_refused(serial: str) -> None:
    with pytest.raises(QwenhostError, match="neither a number of hosts nor a share"):
        batches(HOSTS, serial)

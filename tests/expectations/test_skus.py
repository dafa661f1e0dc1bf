"""Boards by PCI id, and what can be cut from them."""

from __future__ import annotations

import pytest

from qwenhost.expectations.partitions import obstacle, profiles, slices
from qwenhost.expectations.skus import by_device_id, skus
from qwenhost.expectations.tables import names

GA100 = "20b0 20b1 20b2 20b3 20b5 20b6 20b7 20b8 20b9 20bd 20f0 20f1 20f2 20f3 20f5 20f6 20fd"


@pytest.mark.parametrize("device_id", GA100.split())
def test_every_board_with_the_chip_of_a100_is_known(device_id: str) -> None:
    sku = by_device_id(device_id.upper())
    assert sku is not None
    assert sku.ecc == "row-remap"


@pytest.mark.parametrize(
    ("device_id", "product", "ecc", "links"),
    [
        ("2330", "NVIDIA H100 80GB HBM3", "row-remap", 18),
        ("2335", "NVIDIA H200", "row-remap", 18),
        ("2324", "NVIDIA H800", "row-remap", 8),
        ("232c", "NVIDIA H20-3e", "row-remap", 18),
        ("2901", "NVIDIA B200", "row-remap", 18),
        ("26b9", "NVIDIA L40S", "row-remap", 0),
        ("2235", "NVIDIA A40", "row-remap", 4),
        ("1eb8", "Tesla T4", "page-retirement", 0),
        ("1db5", "Tesla V100-SXM2-32GB", "page-retirement", None),
        ("2684", "NVIDIA GeForce RTX 4090", "optional", 0),
    ],
)
def test_other_boards(device_id: str, product: str, ecc: str, links: int | None) -> None:
    sku = by_device_id(device_id)
    assert sku is not None
    assert (sku.product, sku.ecc, sku.nvlink_links) == (product, ecc, links)


def test_an_unknown_board_is_none() -> None:
    assert by_device_id("ffff") is None


def test_words_of_the_table_are_known_and_each_mig_table_is_used() -> None:
    found = skus().values()
    assert {sku.ecc for sku in found} <= {"row-remap", "page-retirement", "optional", ""}
    assert {sku.mig for sku in found if sku.mig} == set(names("mig"))


@pytest.mark.parametrize("mig", names("mig"))
def test_profiles_fit_their_board(mig: str) -> None:
    compute, memory = slices(mig)
    for profile in profiles(mig).values():
        assert profile.compute_slices <= compute
        assert max(profile.placements) + profile.memory_slices <= memory
        assert obstacle(mig, [profile.name] * profile.max_instances) == ""
        assert "at most" in obstacle(mig, [profile.name] * (profile.max_instances + 1))


A30 = [
    (("2g.12gb", "1g.6gb", "1g.6gb"), ""),
    (("1g.6gb", "1g.6gb", "1g.6gb", "1g.6gb+me"), ""),
    (("2g.12gb", "2g.12gb", "1g.6gb"), "5 compute slices, a GPU has 4"),
    (("4g.24gb", "1g.6gb"), "5 compute slices, a GPU has 4"),
]


@pytest.mark.parametrize(("layout", "reason"), A30)
def test_layouts_of_a30(layout: tuple[str, ...], reason: str) -> None:
    assert obstacle("a30", layout) == reason
    assert "no profile 3g.20gb" in obstacle("a30", ("3g.20gb",))

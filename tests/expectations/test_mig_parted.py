"""Layouts in mig-parted's file format: taken as they are, or refused with file, line and hint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from qwenhost.expectations.declared import read_declared
from qwenhost.expectations.mig_parted import read_partitions
from qwenhost.expectations.partitions import obstacle
from qwenhost.expectations.resolve import resolve
from qwenhost.records.errors import QwenhostError
from qwenhost.workflows.inventory import load_hosts
from qwenhost.workflows.mig_files import with_mig_file

A100_80, A100_40, A30 = ["20b2"], ["20b0"], ["20b7"]

FILE = """\
version: v1
mig-configs:
  off:
    - devices: all
      mig-enabled: false
  empty:
    - devices: all
      mig-enabled: true
      mig-devices: {}
  by-board:
    # the same name, cut as each board can be
    - device-filter: ["0x20B210DE", "0x20B510DE"]
      devices: all
      mig-enabled: true
      mig-devices: {"1g.10gb": 2, "3g.40gb": 1}
    - device-filter: "0x20b010de"
      devices: all
      mig-enabled: true
      mig-devices:
        "3g.20gb": 2
        "1g.5gb": 0
  some:
    - devices: [0, 2]
      mig-enabled: true
      mig-devices: {"1g.10gb.me": 1, "4g.40gb": 1}
    - devices: [1]
      mig-enabled: false
  media:
    - devices: all
      mig-enabled: true
      mig-devices: {"1g.24gb-me": 2, "1g.24gb+me.all": 1}
"""

LAYOUTS: list[tuple[str, list[str], list[tuple[bool, tuple[str, ...]] | None]]] = [
    ("off", [], [(False, ())] * 3),
    ("empty", [], [(True, ())] * 3),
    ("by-board", A100_80, [(True, ("3g.40gb", "1g.10gb", "1g.10gb"))] * 3),
    ("by-board", A100_40, [(True, ("3g.20gb", "3g.20gb"))] * 3),
    ("some", [], [(True, ("4g.40gb", "1g.10gb+me")), (False, ()), (True, ("4g.40gb", "1g.10gb+me")), None]),
    ("media", [], [(True, ("1g.24gb-me", "1g.24gb-me", "1g.24gb+me.all"))]),
]


@pytest.mark.parametrize(("config", "board", "layouts"), LAYOUTS)
def test_taken(config: str, board: list[str], layouts: list[tuple[bool, tuple[str, ...]] | None]) -> None:
    partitions = read_partitions(FILE, "mig.yaml", config, board)
    found = [partitions.layout_of(gpu) for gpu in range(len(layouts))]
    assert [(one.enabled, one.profiles) if one else None for one in found] == layouts
    assert all(one is None or one.origin == f"mig.yaml: {config}" for one in found)


ENTRY = "    - {devices: all, mig-enabled: true, mig-devices: {3g.40gb: 2}}"


def config(*lines: str) -> str:
    return "\n".join(["version: v1", "mig-configs:", "  c:", *lines])


REFUSED = [
    ("version: v2\nmig-configs: {}", "mig.yaml:1: version 'v2' is unknown"),
    ("mig-configs:\n  c: []", "mig.yaml:1: version is missing"),
    ("version: v1\nmig-config: {}", "mig.yaml:2: unknown key 'mig-config'"),
    ("version: v1\nmig-configs: {}", "mig.yaml:2: has no config"),
    ("version: v1\nmig-configs:\n  c: [", "mig.yaml:3: broken YAML"),
    ("[]", "mig.yaml:1: a mapping is wanted"),
    ("", "mig.yaml:1: a mapping is wanted"),
    (config("    []"), "c needs a list"),
    ("version: v1\nmig-configs:\n  d:\n" + ENTRY, "there is no config c"),
    (config(ENTRY, "  c:", ENTRY), "mig.yaml:5: c stands twice"),
    (config("    - {devices: all}"), "mig.yaml:4: mig-enabled is missing"),
    (config("    - {devices: all, mig-enabled: 1}"), "neither true nor false"),
    (config("    - {devices: all, mig-enabled: true}"), "mig-devices is missing"),
    (config("    - {devices: all, mig-enabled: false, mig-devices: {7g.80gb: 1}}"), "mig-enabled: false"),
    (config("    - {devices: every, mig-enabled: false}"), "devices: 'every'"),
    (config("    - {devices: [-1], mig-enabled: false}"), "devices: [-1]"),
    (config("    - {devices: all, mig-enabled: true, mig-device: {}}"), "unknown key 'mig-device'"),
    (config("    - {devices: all, mig-enabled: true, mig-devices: {3g.40gb: two}}"), "'two' is no number"),
    (config("    - {devices: all, mig-enabled: true, mig-devices: {half: 2}}"), "'half' is no profile"),
    (config("    - {devices: all, mig-enabled: true, mig-devices: {1c.3g.40gb: 3}}"), "shares a GPU instance"),
    (config("    - {devices: all, device-filter: 20B2, mig-enabled: false}"), "device-filter"),
    (config("    - {devices: all, device-filter: '0x20B71002', mig-enabled: false}"), "device-filter"),
    (config("    - {devices: all, device-filter: '0x20B710DE', mig-enabled: false}"), "no entry of c is for"),
    (config(ENTRY, "    - {devices: [1], mig-enabled: false}"), "mig.yaml:5: contradicts line 4"),
    (config("    - {devices: [1, 2], mig-enabled: false}", ENTRY.replace("all", "[2]")), "contradicts line 4"),
]


@pytest.mark.parametrize(("text", "told"), REFUSED)
def test_refused(text: str, told: str) -> None:
    with pytest.raises(QwenhostError) as caught:
        read_partitions(text, "mig.yaml", "c", A100_80)
    assert told in str(caught.value)
    assert str(caught.value).startswith("mig.yaml:")


def test_a_filter_needs_a_declared_board() -> None:
    with pytest.raises(QwenhostError, match="device-filter") as caught:
        read_partitions(FILE, "mig.yaml", "by-board", [])
    assert "qwenhost_sku" in caught.value.hint


def declared(name: str, **more: Any) -> dict[str, Any]:
    file = {"file": "mig.yaml", "config": name, "content": FILE}
    return {"qwenhost_sku": "a100-sxm4-80gb", "qwenhost_gpus": 4, "qwenhost_mig_config": file, **more}


def test_only_named_gpus_are_managed() -> None:
    want = resolve(read_declared(declared("some"), "h"))
    assert [(layout.gpu, layout.enabled) for layout in want.mig or ()] == [(0, True), (1, False), (2, True)]


DECLARED = [
    (declared("some", qwenhost_mig={}), "contradicts qwenhost_mig"),
    (declared("some", qwenhost_gpus=2), "there is no GPU 2"),
    (declared("some", qwenhost_sku="a100-sxm4-40gb"), "there is no profile 4g.40gb on this board"),
    (declared("empty", qwenhost_sku="h100-pcie"), "no MIG table"),
    ({"qwenhost_mig_config": {"file": "mig.yaml"}}, "qwenhost_mig_config.config: missing"),
    ({"qwenhost_mig_config": {"file": "mig.yaml", "configs": "c"}}, "configs: unknown"),
    ({"qwenhost_drain": 1}, "neither true nor false"),
]


@pytest.mark.parametrize(("raw", "told"), DECLARED, ids=[told for _, told in DECLARED])
def test_declaration_refused(raw: dict[str, Any], told: str) -> None:
    with pytest.raises(QwenhostError, match=told.replace("(", r"\(")):
        read_declared(raw, "gpu1", "hosts.yml")


def test_the_file_counts_from_the_inventory(tmp_path: Path) -> None:
    tmp_path.joinpath("cuts").mkdir()
    tmp_path.joinpath("cuts/mig.yaml").write_text(FILE)
    hosts = "all:\n  hosts:\n    h1:\n      qwenhost_mig_config: {file: cuts/mig.yaml, config: 'off'}\n"
    tmp_path.joinpath("hosts.yml").write_text(hosts)
    (host,) = load_hosts(tmp_path / "hosts.yml")
    layout = read_declared(host.variables, "h1").layout_of(5)
    assert layout is not None and not layout.enabled
    tmp_path.joinpath("cuts/mig.yaml").write_text(FILE.replace("mig-enabled: false", "mig-enable: false", 1))
    with pytest.raises(QwenhostError, match=r"cuts/mig\.yaml:5: unknown key 'mig-enable'"):
        load_hosts(tmp_path / "hosts.yml")


def test_a_missing_file_is_named() -> None:
    with pytest.raises(QwenhostError, match=r"^/nowhere/mig\.yaml: No such file") as caught:
        with_mig_file({"qwenhost_mig_config": {"file": "mig.yaml", "config": "c"}}, Path("/nowhere"))
    assert "inventory's folder" in caught.value.hint


BOARDS = [
    ("a30", ("2g.12gb+me", "2g.12gb"), ""),
    ("a30", ("2g.12gb+me", "1g.6gb+me"), "more than one +me"),
    ("a30", ("2g.12gb", "1g.6gb", "1g.6gb", "1g.6gb"), "5 compute slices, a GPU has 4"),
    ("h100-80gb", ("3g.40gb", "2g.20gb", "1g.20gb"), ""),
    ("h100-94gb", ("4g.47gb", "4g.47gb"), "at most 1 fit"),
    ("h100-94gb", ("3g.47gb", "3g.47gb"), ""),
]


@pytest.mark.parametrize(("board", "layout", "told"), BOARDS)
def test_boards_that_are_no_a100(board: str, layout: tuple[str, ...], told: str) -> None:
    assert told in obstacle(board, layout) if told else obstacle(board, layout) == ""

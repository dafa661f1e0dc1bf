"""Captures of hosts that are not whole machines: one tool's answer, or a few."""

from __future__ import annotations

import json

from qwenhost.checks.engine import examine
from qwenhost.expectations.skus import skus
from qwenhost.records.bundle import Bundle, Capture
from qwenhost.records.desired import Expectations
from tests.checks.conftest import of

NCCL = "node7:811:942 [3] NCCL"


def host(*captures: tuple[str, str]) -> Bundle:
    return Bundle("somewhere", tuple(Capture(source, "ok", text) for source, text in captures))


def worst(bundle: Bundle, check: str, want: Expectations | None = None) -> str:
    order = ["skip", "pass", "note", "unknown", "warn", "fail"]
    return max((f.verdict.value for f in of(examine(bundle, want or Expectations()), check)), key=order.index)


def log(*lines: str) -> str:
    return "".join(f"[  {500 + number}.000000] {line}\n" for number, line in enumerate(lines))


def matrix(*rows: str) -> str:
    """Return `topo -m` of GPUs with these cells, such as "X NV4" and "NV4 X"."""
    head = "\t".join(["", *(f"GPU{number}" for number in range(len(rows))), "CPU Affinity", "NUMA Affinity"])
    body = ["\t".join([f"GPU{number}", *row.split(), "0-15", "0"]) for number, row in enumerate(rows)]
    return "\n".join([head, *body]) + "\n"


PCIE_PAIR = matrix("X PHB", "PHB X")
NVLINK_PAIR = matrix("X NV4", "NV4 X")


A100_PCIE = Expectations(sku=skus()["a100-80gb-pcie"])


def files(state: str, how: str, drops: int = 0, rate: str = "200 Gb/sec (4X HDR)") -> str:
    folder = "/sys/class/infiniband/mlx5_0/ports/1"
    values = {"state": state, "phys_state": how, "rate": rate, "link_layer": "InfiniBand"}
    tree = {f"{folder}/{name}": f"{value}\n" for name, value in values.items()}
    tree[f"{folder}/counters/link_downed"] = f"{drops}\n"
    return json.dumps(
        {**tree, "/sys/class/net/lo/operstate": "unknown\n", "/sys/class/net/ens3/operstate": "up\n"}
    )

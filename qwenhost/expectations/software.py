"""Which driver a vLLM version needs and how long its branch is kept up; which vLLM a model family needs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from qwenhost.expectations.tables import table
from qwenhost.records.versions import branch, older, parts

CUDA = "software/cuda.yaml"
BRANCHES = "software/driver_branches.yaml"
FORWARD_COMPAT = "software/forward_compat.yaml"


@dataclass(frozen=True)
class Floor:
    """A lowest version, and why it is that one."""

    version: str
    origin: str


@dataclass(frozen=True)
class DriverBranch:
    """`end_of_life`: last month with fixes, such as "2028-06"; empty when none was promised.

    `exact`: false where it had ended by then, and nobody told when.
    """

    name: str
    kind: str
    end_of_life: str
    exact: bool
    origin: str

    def months_left(self, month: str) -> int | None:
        """Return the months with fixes after `month`, negative when over; None when no end is known."""
        return _months(self.end_of_life) - _months(month) if self.end_of_life else None


def driver_floor(vllm_version: str) -> Floor:
    """Return the lowest NVIDIA driver that the PyPI wheel of this vLLM version runs on."""
    rows = [row for row in table(CUDA)["vllm"] if not older(vllm_version, row["from"])]
    row = max(rows, key=lambda row: parts(row["from"]))
    floor = cuda_floor(row["cuda"])
    chain = f"vLLM {vllm_version} -> torch {row['torch']} -> CUDA {row['cuda']} -> driver {floor.version}"
    return Floor(floor.version, f"{CUDA}: {chain}")


def cuda_floor(cuda: str) -> Floor:
    """Return the lowest driver for a CUDA version such as "13.0": that of its major version."""
    major = branch(cuda)
    return Floor(table(CUDA)["cuda_major_floor"][major]["driver"], f"{CUDA}: cuda_major_floor.{major}")


def first_vllm_for_qwen35() -> str:
    """Return the first vLLM version that knows the Qwen3.5 architecture."""
    return str(table(CUDA)["qwen35_first_vllm"]["version"])


def driver_branch(version: str) -> DriverBranch | None:
    """Return the branch of a driver version, None for one that the table lacks."""
    return driver_branches().get(branch(version))


@cache
def driver_branches() -> dict[str, DriverBranch]:
    """Return all known branches by name."""
    return {
        name: DriverBranch(
            name,
            row["kind"],
            row.get("end_of_life", "") or row.get("ended_by", ""),
            exact="ended_by" not in row,
            origin=f"{BRANCHES}: {name}: {row['source']}",
        )
        for name, row in table(BRANCHES)["branches"].items()
    }


def near_end_months() -> int:
    """Return how many months before its end a branch is worth a note."""
    return int(table(BRANCHES)["near_end_months"]["value"])


def _months(month: str) -> int:
    year, _, number = month.partition("-")
    return int(year) * 12 + int(number)


def kept_up(month: str) -> tuple[str, ...]:
    """Return the branches that get fixes in a month such as "2026-12", the longest promise first."""
    known = [
        row
        for row in driver_branches().values()
        if row.exact and row.end_of_life >= month and row.kind != "new feature"
    ]
    return tuple(row.name for row in sorted(known, key=lambda row: row.end_of_life, reverse=True))


def compat_serves(cuda: str, driver: str) -> bool | None:
    """Tell whether the cuda-compat package of a CUDA version helps on a driver; None for an unknown package."""
    row = table(FORWARD_COMPAT)["packages"].get(cuda)
    return row and not older(driver, row["from"]) and older(driver, row["below"])


def compat_too_old(cuda: str, driver: str) -> bool:
    """Tell whether a cuda-compat package is older than the driver, so that CUDA stops with error 803."""
    row = table(FORWARD_COMPAT)["packages"].get(cuda)
    return not older(driver, row["below"]) if row else False

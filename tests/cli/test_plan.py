"""`qwenhost plan`: figures for machines, lines for people, one line for what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from qwenhost.cli import main
from qwenhost.cli.plan import command
from tests.serving.test_kv_cache import TINY

CONTRACT = {
    "tensor_parallel",
    "replicas",
    "mig_profile",
    "weights_gib",
    "kv_cache_gib",
    "block_tokens",
    "blocks",
    "blocks_per_request",
    "concurrency",
    "kv_tokens",
    "max_num_seqs",
    "max_num_batched_tokens",
    "args",
}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, [*arguments], catch_exceptions=False)


def test_json_has_the_fields_of_the_contract() -> None:
    done = run("--model", "qwen3.5-27b", "--sku", "a100-sxm4-40gb", "--gpus", "8", "--json")
    plan = json.loads(done.output)
    assert done.exit_code == 0
    assert plan["schema"] == 1
    assert plan["chosen"] in plan["candidates"]
    assert all(set(candidate) >= CONTRACT for candidate in plan["candidates"])
    assert all(set(refused) == {"layout", "reason"} for refused in plan["refused"])


def test_what_does_not_fit_ends_with_1_and_says_why() -> None:
    done = run("--model", "qwen3.5-397b-a17b", "--sku", "a100-sxm4-80gb", "--gpus", "8")
    assert done.exit_code == 1
    assert "does not fit (weights and overhead exceed the memory" in done.output
    told = json.loads(run("--model", "qwen3.5-397b-a17b", "--sku", "a100-sxm4-80gb", "--json").output)
    assert told["chosen"] is None


def test_lines_end_with_a_command_that_can_be_copied() -> None:
    done = run("--model", "qwen3.5-9b", "--sku", "a100-sxm4-80gb")
    assert "  vllm serve MODEL --tensor-parallel-size 1 --max-model-len 32768" in done.output
    assert "(estimated)" in done.output


def test_checkpoint_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    (tmp_path / "model.safetensors.index.json").write_text('{"metadata": {"total_size": 7100000}}')
    done = run("--model", str(tmp_path), "--sku", "a100-sxm4-80gb", "--json")
    assert json.loads(done.output)["chosen"]["weights_gib"] == pytest.approx(0.007, abs=0.001)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--model", "qwen3.5-14b", "--sku", "a100-sxm4-80gb"), "there is no model qwen3.5-14b"),
        (("--model", "qwen3.5-9b", "--sku", "a100"), "there is no board a100"),
        (("--model", "qwen3.5-9b", "--sku", "a100-sxm-80gb"), "did you mean a100-sxm4-80gb?"),
        (("--model", "", "--sku", "a100-sxm4-80gb"), "there is no model ''"),
        (("--model", "qwen3.5-9b", "--sku", "t4", "host1"), "either boards or hosts"),
        (("--model", "/nonexistent/model", "--sku", "t4"), "/nonexistent/model/config.json: No such file"),
        (("--model", "qwen3.5-9b", "--sku", "t4", "--gpus", "0"), "--gpus"),
    ],
)
def test_wrong_usage_is_one_line_and_2(
    arguments: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["plan", *arguments], debug=False) == 2
    assert told in capsys.readouterr().err

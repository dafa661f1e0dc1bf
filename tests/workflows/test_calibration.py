"""What a running service tells of its memory is kept, used by later plans of the same target, and said there."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from qwenhost.cli.plan import command
from qwenhost.expectations.model_shapes import by_name
from qwenhost.records.errors import QwenhostError
from qwenhost.records.fit import Question
from qwenhost.workflows import calibration
from qwenhost.workflows.requests import Response
from qwenhost.workflows.serving_plan import boards, plan
from qwenhost.workflows.smoke.service import Service

LABELS = {
    "block_size": "528",
    "num_gpu_blocks": "1100",
    "gpu_memory_utilization": "0.92",
    "kv_cache_memory_bytes": "None",
    "num_gpu_blocks_override": "None",
}
URL = "http://gpu7:8000"
BOARD = "a100-sxm4-40gb"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


class Page:
    """A service that publishes these labels."""

    def __init__(self, **labels: str | None) -> None:
        told = {name: value for name, value in (LABELS | labels).items() if value is not None}
        shown = ",".join(f'{name}="{value}"' for name, value in told.items())
        self.text = f"vllm:num_requests_running 0\nvllm:cache_config_info{{{shown}}} 1.0\n"

    def __call__(self, *_: object) -> Response:
        return Response(200, {}, self.text)

    def burst(self, *_: object) -> tuple[Response, ...]:
        return ()


def question(model: str = "qwen3.5-9b") -> Question:
    shape, precision = by_name(model)
    return Question(shape, precision)


def learn(**labels: str | None) -> calibration.Calibration:
    place = boards(BOARD, 1).places[0]
    return calibration.calibrate(question(), place, BOARD, Service(Page(**labels)), URL)


def blocks(target: str = BOARD, model: str = "qwen3.5-9b") -> int:
    chosen = plan(question(model), boards(target, 1)).chosen
    assert chosen
    return chosen.blocks


def test_later_plan_has_the_blocks_of_the_service_and_says_why() -> None:
    before = blocks()
    told = learn()
    calibration.keep(told)
    chosen = plan(question(), boards(BOARD, 1)).chosen
    assert before != 1100
    assert chosen
    assert chosen.blocks == 1100
    assert chosen.overhead_origin == f"measured at {URL} on {told.measured_at[:10]}"
    assert chosen.overhead_gib == pytest.approx(told.overhead_gib)


def test_other_boards_and_models_stay_estimated() -> None:
    kept = blocks("a100-sxm4-80gb"), blocks(BOARD, "qwen3.5-4b")
    calibration.keep(learn())
    assert (blocks("a100-sxm4-80gb"), blocks(BOARD, "qwen3.5-4b")) == kept


def test_other_options_are_corrected_by_the_same() -> None:
    larger = replace(question(), max_num_batched_tokens=16384)
    target = boards(BOARD, 1)
    before = plan(larger, target).chosen
    told = learn()
    calibration.keep(told)
    after = plan(larger, target).chosen
    assert before and after
    assert before.kv_cache_gib - after.kv_cache_gib == pytest.approx(told.correction_gib)


def test_the_nearest_name_wins() -> None:
    calibration.keep(learn())
    calibration.keep(replace(learn(num_gpu_blocks="1050"), target="gpu7"))
    assert calibration.calibrated(question(), "gpu7", BOARD).calibration.target == "gpu7"
    assert calibration.calibrated(question(), "gpu8", BOARD).calibration.target == BOARD
    assert calibration.calibrated(question(), "gpu8").calibration is None


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        ({"block_size": "784"}, "its blocks have 784 tokens, those of this plan 528"),
        ({"kv_cache_memory_bytes": "1073741824"}, "its pool was given"),
        ({"num_gpu_blocks_override": "64"}, "its pool was given"),
        ({"num_gpu_blocks": "None"}, "publishes no vllm:cache_config_info"),
        ({"block_size": None}, "publishes no vllm:cache_config_info"),
    ],
)
def test_a_service_that_tells_nothing_of_the_overhead_is_refused(labels: dict, why: str) -> None:
    with pytest.raises(QwenhostError, match=why):
        learn(**labels)


@pytest.mark.parametrize("content", ["{", "[]", '{"schema": 2}', '{"schema": 1, "target": "x"}'])
def test_a_broken_file_is_named(content: str, state: Path) -> None:
    path = calibration.keep(learn())
    path.write_text(content)
    with pytest.raises(QwenhostError, match="calibrations"):
        blocks()


def run(*arguments: str) -> Result:
    told = ("--model", "qwen3.5-9b", "--json", *arguments)
    return CliRunner().invoke(command, told)


def test_command_calibrates_boards_and_plans_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qwenhost.workflows.requests.UrlFetch", lambda url: Page())
    done = run("--sku", BOARD, "--calibrate", URL)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["chosen"]["blocks"] == 1100
    assert "overhead" in done.stderr
    assert json.loads(run("--sku", BOARD).stdout)["chosen"]["blocks"] == 1100


def test_command_needs_a_host_to_ask_its_own_service() -> None:
    done = run("--sku", BOARD, "--calibrate", "host")
    assert isinstance(done.exception, QwenhostError)
    assert "no host is named" in str(done.exception)


def test_silent_service_is_one_line() -> None:
    done = run("--sku", BOARD, "--calibrate", "http://127.0.0.1:1")
    assert isinstance(done.exception, QwenhostError)
    assert "http://127.0.0.1:1" in str(done.exception)

"""The ladder, its comparison and what is kept; the load generator is a script that behaves like vLLM's."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from qwenhost.records.errors import QwenhostError
from qwenhost.reports.bench_text import ladder_lines
from qwenhost.serving.roofline import Roofline
from qwenhost.workflows import bench
from qwenhost.workflows.requests import Fetch, Response

GENERATOR = """
import json, os, sys
assert sys.argv[1:3] == ["bench", "serve"]
value = lambda name: sys.argv[sys.argv.index(name) + 1]
clients, asked = int(value("--max-concurrency")), int(value("--num-prompts"))
if os.environ.get("OPENAI_API_KEY") == "wrong":
    sys.exit("Unauthorized")
result = {"completed": asked, "failed": 0, "output_throughput": 100.0 * clients ** 0.5,
    "total_token_throughput": 500.0 * clients, "median_ttft_ms": 10.0 * clients, "p99_ttft_ms": 20.0 * clients,
    "median_tpot_ms": 5.0, "p99_tpot_ms": 7.0}
json.dump(result, open(os.path.join(value("--result-dir"), value("--result-filename")), "w"))
print("Serving Benchmark Result")
"""


@pytest.fixture
def target(tmp_path: Path) -> bench.Target:
    script = tmp_path / "vllm.py"
    script.write_text(GENERATOR)
    load = bench.Load(
        "lab1 vllm@main", "http://127.0.0.1:1", "m", "/m", (1, 4), program=(sys.executable, str(script))
    )
    return bench.Target(load, bench.here, lambda *_: Response(200, {}, '{"version": "0.32.0"}'))


def answering(pages: list[str]) -> Fetch:
    """A service whose counters go on from page to page."""
    told = iter(pages)

    def fetch(method: str, path: str, *_: object) -> Response:
        return Response(200, {}, '{"version": "0.32.0"}' if path == "/version" else next(told))

    return fetch


def counters(asked: int, found: int) -> str:
    names = {"num_requests_running": 0, "prefix_cache_queries_total": asked, "prefix_cache_hits_total": found}
    return "".join(f'vllm:{name}{{engine="0"}} {value}\n' for name, value in names.items())


def test_prompts_found_in_the_prefix_cache_are_told(target: bench.Target) -> None:
    pages = [counters(0, 0), counters(100, 0), counters(100, 0), counters(200, 60)]
    load = replace(target.load, concurrencies=(4,))
    ladder = bench.measure(replace(target, load=load, fetch=answering(pages)), quiet)
    assert ladder.steps[0].cached_share == 0.6
    assert "60% of the prompts were cached" in "\n".join(ladder_lines(ladder, ()))


def test_each_step_has_prompts_of_its_own(target: bench.Target) -> None:
    assert target.load.request(1)["seed"] != target.load.request(1)["seed"]


def quiet(line: str) -> None:
    assert line.startswith("lab1 vllm@main: ")


def test_ladder_has_a_step_for_each_concurrency(target: bench.Target) -> None:
    ladder = bench.measure(target, quiet)
    assert [(step.concurrency, step.requests) for step in ladder.steps] == [(1, 8), (4, 16)]
    assert ladder.vllm == "0.32.0"
    assert ladder.at(4).output_tokens_per_s == 200.0


def test_saved_ladder_is_read_back(target: bench.Target, tmp_path: Path) -> None:
    ladder = bench.measure(target, quiet)
    bench.save([ladder], tmp_path / "bench.json")
    assert bench.load_saved(tmp_path / "bench.json") == {"lab1 vllm@main": ladder}


@pytest.mark.parametrize(("factor", "holds"), [(1.0, True), (1.05, True), (1.2, False)])
def test_loss_beyond_the_tolerance_does_not_hold(target: bench.Target, factor: float, holds: bool) -> None:
    now = bench.measure(target, quiet)
    faster = tuple(replace(step, output_tokens_per_s=factor * step.output_tokens_per_s) for step in now.steps)
    compared = bench.compare(now, replace(now, steps=faster), tolerance=0.1)
    assert [one.holds for one in compared] == [holds, holds]
    assert ("SLOWER" in "\n".join(ladder_lines(now, compared))) is not holds


def test_other_lengths_cannot_be_compared(target: bench.Target) -> None:
    now = bench.measure(target, quiet)
    with pytest.raises(QwenhostError, match="the baseline measured"):
        bench.compare(now, replace(now, output_tokens=7), 0.1)


def test_failed_requests_are_told(target: bench.Target) -> None:
    now = bench.measure(target, quiet)
    failing = replace(now, steps=tuple(replace(step, failed=2) for step in now.steps))
    assert any("2 failed" in line for line in ladder_lines(failing, ()))
    assert not any(one.holds for one in bench.compare(failing, now, 0.1))


def test_refusing_service_is_one_line(target: bench.Target, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("wrong\n")
    refused = replace(target, load=replace(target.load, key_file=str(tmp_path / "key")))
    with pytest.raises(QwenhostError, match="lab1 vllm@main: vllm bench serve wrote no result: Unauthorized"):
        bench.measure(refused, quiet)


def test_missing_program_is_named(target: bench.Target) -> None:
    absent = replace(target, load=replace(target.load, program=("/nonexistent/vllm",)))
    with pytest.raises(QwenhostError, match="/nonexistent/vllm: No such file"):
        bench.measure(absent, quiet)


@pytest.mark.parametrize("content", ["", "{}", '{"schema": 2}', '{"schema": 1, "ladders": [{}]}', "[]"])
def test_bad_baseline_is_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "b.json").write_text(content)
    with pytest.raises(QwenhostError, match=r"b\.json"):
        bench.load_saved(tmp_path / "b.json")


def test_key_is_never_in_the_command_line(target: bench.Target) -> None:
    from qwenhost.hands.bench import arguments

    request = replace(target.load, key_file="/etc/key").request(1)
    assert "/etc/key" not in " ".join(arguments(request, "/tmp/x"))
    assert json.dumps(request)


def test_ladder_beside_a_plan_tells_its_share_of_the_estimate(target: bench.Target) -> None:
    ladder = bench.beside(bench.measure(target, quiet), Roofline(120.0, 1e9))
    assert [round(rate) for rate in ladder.roofline] == [120, 480]
    lines = list(ladder_lines(ladder, ()))
    assert "83% of the estimated 120" in lines[2]
    assert bench.from_json(json.loads(bench.to_json([ladder]))["ladders"][0]) == ladder

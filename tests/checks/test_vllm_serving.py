"""How a service fares, by its log and by its metrics."""

from __future__ import annotations

import json

import pytest

from qwenhost.records.bundle import Capture
from qwenhost.records.finding import Verdict
from tests.checks.test_vllm_start import HEALTHY, SERVED, journal, log, loud, the, units
from tests.facts.test_vllm_log import CRASH, FAILED, V011, V032, V06

HEALTHY_LOGS = {"0.6": V06, "0.11": V011, "0.32": V032}


@pytest.mark.parametrize("version", HEALTHY_LOGS)
def test_a_sound_start_alarms_nobody(version: str) -> None:
    kept = Capture("vllm-log", "ok", HEALTHY_LOGS[version])
    assert loud(kept) == {}
    for check in ("vllm.start", "vllm.kv-cache-fit", "vllm.free-memory", "vllm.restarts", "vllm.preemptions"):
        assert the(check, kept).verdict is Verdict.PASS, check


def page(**counts: float) -> Capture:
    lines = {"num_requests_running": 0.0, "num_requests_waiting": 0.0, **counts}
    body = "".join(f'vllm:{name}{{engine="0"}} {count}\n' for name, count in lines.items())
    body += 'vllm:cache_config_info{block_size="528",kv_cache_max_concurrency="15.058"} 1.0\n'
    return Capture("vllm-metrics:8001", "ok", json.dumps({"status": 200, "body": body}))


def statistics(running: int, waiting: int, hits: str = "12.0") -> str:
    return (
        "INFO 12-01 09:00:00 [loggers.py:259] Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation"
        f" throughput: 1.0 tokens/s, Running: {running} reqs, Waiting: {waiting} reqs, GPU KV cache usage: 99.0%,"
        f" Prefix cache hit rate: {hits}%"
    )


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        ([statistics(8, 0)], Verdict.PASS),
        ([statistics(8, 3)], Verdict.NOTE),
        ([statistics(8, 40)] * 3, Verdict.WARN),
        ([statistics(0, 5)], Verdict.WARN),
        ([statistics(8, 40), statistics(8, 0)], Verdict.PASS),
        ([statistics(8, 0), statistics(8, 40)], Verdict.NOTE),
    ],
)
def test_queue_in_the_log(lines: list[str], verdict: Verdict) -> None:
    assert the("vllm.queue", log(*lines)).verdict is verdict


def test_queue_of_the_older_engine() -> None:
    old = "INFO 03-07 08:01:40 metrics.py:449] Avg prompt throughput: 1.0 t/s, Running: 4 reqs, Swapped: 0 reqs, "
    assert the("vllm.queue", log(old + "Pending: 9 reqs, GPU KV cache usage: 3.1%")).verdict is Verdict.WARN


@pytest.mark.parametrize(
    ("counts", "check", "verdict"),
    [
        ({"num_requests_running": 4.0, "num_requests_waiting": 9.0}, "vllm.queue", Verdict.WARN),
        ({"num_requests_running": 4.0, "num_requests_waiting": 1.0}, "vllm.queue", Verdict.NOTE),
        ({"num_preemptions_total": 0.0, "request_success_total": 5.0}, "vllm.preemptions", Verdict.PASS),
        ({"num_preemptions_total": 3.0, "request_success_total": 5.0}, "vllm.preemptions", Verdict.NOTE),
        ({"num_preemptions_total": 30.0, "request_success_total": 50000.0}, "vllm.preemptions", Verdict.NOTE),
        ({"num_preemptions_total": 30.0, "request_success_total": 500.0}, "vllm.preemptions", Verdict.WARN),
        (
            {"prefix_cache_queries_total": 90000.0, "prefix_cache_hits_total": 0.0},
            "vllm.prefix-cache",
            Verdict.NOTE,
        ),
        (
            {"prefix_cache_queries_total": 90000.0, "prefix_cache_hits_total": 9.0},
            "vllm.prefix-cache",
            Verdict.PASS,
        ),
        ({"prefix_cache_queries_total": 90.0, "prefix_cache_hits_total": 0.0}, "vllm.prefix-cache", Verdict.SKIP),
    ],
)
def test_counts(counts: dict[str, float], check: str, verdict: Verdict) -> None:
    assert the(check, page(**counts), units("active"), HEALTHY, want=SERVED).verdict is verdict


PREEMPTED = (
    "WARNING 03-07 08:00:00 scheduler.py:1057] Sequence group 4 is preempted by PreemptionMode.RECOMPUTE mode"
    " because there is not enough KV cache space. total_{}={}"
)


@pytest.mark.parametrize(
    ("name", "count", "verdict"),
    [
        ("num_cumulative_preemption", 51, Verdict.WARN),
        ("cumulative_preemption_cnt", 101, Verdict.WARN),
        ("num_cumulative_preemption", 1, Verdict.NOTE),
    ],
)
def test_preemptions_in_the_log(name: str, count: int, verdict: Verdict) -> None:
    finding = the("vllm.preemptions", log(PREEMPTED.format(name, count)))
    assert (finding.verdict, finding.observed) == (verdict, f"{count} preemptions")


def test_preemptions_of_the_newer_engine() -> None:
    lines = [
        f"WARNING 12-01 08:00:00 [scheduler.py:9] Preempting request r-{number}: lost" for number in range(12)
    ]
    assert the("vllm.preemptions", log(*lines)).verdict is Verdict.WARN


MAMBA = "INFO 12-01 08:00:00 [c.py:7] Mamba cache mode is set to 'align' for Qwen3_5 by default"
BLOCK = "INFO 12-01 08:00:00 [config.py:281] Setting attention block size to 784 tokens to ensure that"


@pytest.mark.parametrize(
    ("lines", "verdict", "observed"),
    [
        ([BLOCK, statistics(1, 0, "0.0")], Verdict.NOTE, "block size 784, hit rate 0 %"),
        ([MAMBA, statistics(1, 0, "0.0")], Verdict.NOTE, "hit rate 0 %"),
        ([statistics(1, 0, "0.0")], Verdict.SKIP, "no prompts"),
        ([BLOCK, statistics(1, 0, "31.5")], Verdict.PASS, "31.5 % of the prompts' tokens"),
        (
            ["INFO 12-01 08:00:00 [config.py:297] Hybrid model detected: disabling prefix caching since it is"],
            Verdict.NOTE,
            "off",
        ),
        (
            ["INFO 12-01 08:00:00 [c.py:2] Hybrid model detected without support for prefix caching: disabling."],
            Verdict.NOTE,
            "off",
        ),
        (
            [MAMBA],
            Verdict.PASS,
            "on",
        ),
    ],
)
def test_prefix_cache_in_the_log(lines: list[str], verdict: Verdict, observed: str) -> None:
    finding = the("vllm.prefix-cache", log(*lines))
    assert finding.verdict is verdict
    assert finding.observed.startswith(observed)


@pytest.mark.parametrize(
    ("restarts", "verdict"), [(0, Verdict.PASS), (1, Verdict.NOTE), (3, Verdict.WARN), (40, Verdict.WARN)]
)
def test_restarts_by_systemd(restarts: int, verdict: Verdict) -> None:
    assert the("vllm.restarts", units("active", restarts=restarts), HEALTHY, want=SERVED).verdict is verdict


def test_restarts_in_a_log() -> None:
    assert the("vllm.restarts", Capture("vllm-log", "ok", FAILED * 3 + V032)).verdict is Verdict.WARN


@pytest.mark.parametrize(("count", "verdict"), [(1, Verdict.NOTE), (57, Verdict.WARN)])
def test_restarts_by_the_words_of_systemd(count: int, verdict: Verdict) -> None:
    told = "Dec 01 08:00:00 lab-a systemd[1]: vllm@chat.service: Scheduled restart job, restart counter is at"
    assert the("vllm.restarts", log(f"{told} {count}.")).verdict is verdict


def test_failures_before_somebody_mended_it_are_over() -> None:
    lines = (FAILED * 5 + V032).splitlines()
    assert the("vllm.restarts", journal(*lines), units("active"), HEALTHY, want=SERVED).verdict is Verdict.PASS


def test_an_engine_that_died() -> None:
    finding = the("vllm.restarts", Capture("vllm-log", "ok", V032 + CRASH))
    assert (finding.verdict, finding.observed) == (Verdict.FAIL, "the engine died")
    assert finding.evidence == "RuntimeError: the sampler met a shape it does not know"
    ran_out = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. The sampler met"
    memory = V032 + CRASH.replace("RuntimeError: the sampler met", ran_out)
    assert loud(Capture("vllm-log", "ok", memory)) == {"vllm.free-memory": "fail"}
    fault = V032 + CRASH.replace(
        "RuntimeError: the", "torch.AcceleratorError: CUDA error: unspecified launch failure"
    )
    assert loud(Capture("vllm-log", "ok", fault)) == {}


def banner(version: str, model: str = "/models/Qwen3.5-9B") -> str:
    return (
        f"INFO 12-01 08:00:00 [x.py:1] vLLM API server version {version}\n"
        f"INFO 12-01 08:00:00 [x.py:2] non-default args: {{'model': '{model}'}}\n"
        "INFO:     Application startup complete."
    )


@pytest.mark.parametrize(
    ("version", "model", "verdict"),
    [
        ("0.33.0", "/models/Qwen3.5-9B", Verdict.PASS),
        ("0.26.0", "/models/Qwen3.5-9B", Verdict.NOTE),
        ("0.11.2", "/models/Qwen3.5-9B", Verdict.FAIL),
        ("0.11.2", "/models/Llama-3", Verdict.NOTE),
        ("0.1.dev9+gabc", "/models/Qwen3.5-9B", Verdict.SKIP),
        ("0.19.1.dev5+gabc", "/models/Qwen3.5-9B", Verdict.NOTE),
    ],
)
def test_versions(version: str, model: str, verdict: Verdict) -> None:
    assert the("vllm.version", log(banner(version, model))).verdict is verdict


def test_an_upgrade_without_a_restart() -> None:
    running = [units("active"), HEALTHY, journal(*banner("0.26.0").splitlines())]
    assert the("vllm.version", *running, want=SERVED).verdict is Verdict.WARN
    same = [units("active"), HEALTHY, journal(*banner("0.32.0+cpu").splitlines())]
    assert the("vllm.version", *same, want=SERVED).verdict is Verdict.PASS


def test_what_fits_is_shown() -> None:
    assert the("vllm.kv-cache-fit", page(), units("active"), HEALTHY, want=SERVED).observed == (
        "15.1 requests of full length"
    )
    assert the("vllm.kv-cache-fit", log(*V032.splitlines())).observed == "15.06 requests of 32,768 tokens"

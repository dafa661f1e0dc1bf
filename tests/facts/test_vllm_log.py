"""Logs of vLLM as its versions write them, and as journals and container runtimes store them; all made up."""

from __future__ import annotations

import pytest

from qwenhost.facts.cuda_errors import errors_from_journal
from qwenhost.facts.registry import sources
from qwenhost.facts.vllm_log import LOG, starts_in_file, starts_in_journal
from qwenhost.facts.vllm_start import VllmStart
from qwenhost.facts.vllm_wordings import wordings
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable

V06 = """\
INFO 03-07 08:00:01 api_server.py:526] vLLM API server version 0.6.4
INFO 03-07 08:00:01 api_server.py:527] args: Namespace(model='/models/small', max_model_len=4096)
INFO 03-07 08:00:05 llm_engine.py:249] Initializing an LLM engine (v0.6.4) with config: model='/models/small', x=1
INFO 03-07 08:00:30 gpu_executor.py:126] Maximum concurrency for 4096 tokens per request: 21.50x
WARNING 03-07 08:00:31 config.py:1] Failed to import from extension with ModuleNotFoundError("No module named 'x'")
INFO:     Application startup complete.
INFO:     Uvicorn running on http://127.0.0.1:8000 (Press CTRL+C to quit)
INFO 03-07 08:01:40 metrics.py:449] Avg prompt throughput: 11.0 tokens/s, Avg generation throughput: 5.0 t/s, \
Running: 2 reqs, Swapped: 0 reqs, Pending: 1 reqs, GPU KV cache usage: 3.1%, CPU KV cache usage: 0.0%.
"""

V011 = """\
(APIServer pid=41) INFO 10-02 08:00:01 [api_server.py:1839] vLLM API server version 0.11.0
(APIServer pid=41) INFO 10-02 08:00:01 [utils.py:233] non-default args: {'model_tag': '/models/mid', 'port': 8001}
(EngineCore_0 pid=77) INFO 10-02 08:00:09 [core.py:77] Initializing a V1 LLM engine (v0.11.0) with config: model=\
'/models/mid', enable_prefix_caching=True, chunked_prefill_enabled=True
(EngineCore_0 pid=77) INFO 10-02 08:01:00 [kv_utils.py:1] Maximum concurrency for 8,192 tokens per request: \
17.25x
(APIServer pid=41) INFO:     Started server process [41]
(APIServer pid=41) INFO:     Application startup complete.
(APIServer pid=41) INFO 10-02 08:02:00 [loggers.py:127] Engine 000: Avg prompt throughput: 9.1 tokens/s, Avg \
generation throughput: 5.0 tokens/s, Running: 3 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%, Prefix cache hit \
rate: 41.5%
"""

V032 = """\
(APIServer pid=9) INFO 12-01 08:00:01 [api_utils.py:347]  ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.32.0
(APIServer pid=9) INFO 12-01 08:00:01 [api_utils.py:347]   █▄█▀ █     █     █     █  model   /models/Qwen3.5-9B
(APIServer pid=9) INFO 12-01 08:00:09 [model.py:733] Resolved architecture: Qwen3_5ForConditionalGeneration
(Worker pid=12) INFO 12-01 08:00:20 [interface.py:1096] Setting attention block size to 528 tokens to ensure that
(EngineCore pid=11) INFO 12-01 08:00:33 [kv_cache_utils.py:2327] GPU KV cache size: 493,419 tokens, Maximum \
concurrency for 32,768 tokens per request: 15.06x
INFO:     Application startup complete.
INFO:     127.0.0.1:41000 - "GET /health HTTP/1.1" 200 OK
"""

STOP = """\
(APIServer pid=9) INFO 12-01 09:00:00 [launcher.py:254] [shutdown] API server: shutdown triggered
(EngineCore pid=11) INFO 12-01 09:00:00 [core.py:1454] [shutdown] EngineCore: trigger received signal=SIGTERM
(APIServer pid=9) ERROR 12-01 09:00:01 [async_llm.py:906] Traceback (most recent call last):
(APIServer pid=9) ERROR 12-01 09:00:01 [async_llm.py:906] vllm.v1.engine.exceptions.EngineDeadError: EngineCore \
encountered an issue. See stack trace (above) for the root cause.
"""

CRASH = """\
(Worker_TP1 pid=13) ERROR 12-01 09:00:00 [multiproc.py:8] Traceback (most recent call last):
(Worker_TP1 pid=13) ERROR 12-01 09:00:00 [multiproc.py:8]   File "/x/vllm/v1/worker.py", line 5, in execute_model
(Worker_TP1 pid=13) ERROR 12-01 09:00:00 [multiproc.py:8] RuntimeError: the sampler met a shape it does not know
(EngineCore pid=11) ERROR 12-01 09:00:01 [core.py:1212] EngineCore encountered a fatal error.
(APIServer pid=9) ERROR 12-01 09:00:01 [async_llm.py:906] vllm.v1.engine.exceptions.EngineDeadError: EngineCore \
encountered an issue. See stack trace (above) for the root cause.
INFO:     Shutting down
"""

FAILED = """\
(APIServer pid=9) INFO 12-01 08:00:01 [api_server.py:1] vLLM API server version 0.24.0
(EngineCore_DP0 pid=11) ERROR 12-01 08:00:09 [core.py:1193] EngineCore failed to start.
(EngineCore_DP0 pid=11) ERROR 12-01 08:00:09 [core.py:1193] Traceback (most recent call last):
(EngineCore_DP0 pid=11) ERROR 12-01 08:00:09 [core.py:1193]   File "/x/vllm/v1/engine/core.py", line 4, in run
(EngineCore_DP0 pid=11) ERROR 12-01 08:00:09 [core.py:1193] IndexError: list index out of range
(APIServer pid=9) Traceback (most recent call last):
(APIServer pid=9) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""


def only_start(text: str) -> VllmStart:
    (start,) = starts_in_file(Capture("vllm-log", "ok", text))
    return start


def journal(text: str, unit: str = "vllm@chat.service", starting: str = "") -> str:
    stamp = "Tue 2026-12-01 08:00:00 UTC lab-a"
    first = f"{stamp} init.scope[1]: Starting {starting}\n" if starting else ""
    return first + "".join(f"{stamp} {unit}[9]: {line}\n" for line in text.splitlines())


@pytest.mark.parametrize(
    ("text", "version", "model", "concurrency"),
    [
        (V06, "0.6.4", "/models/small", "21.50"),
        (V011, "0.11.0", "/models/mid", "17.25"),
        (V032, "0.32.0", "/models/Qwen3.5-9B", "15.06"),
    ],
)
def test_a_sound_start(text: str, version: str, model: str, concurrency: str) -> None:
    start = only_start(text)
    assert (start.state, start.version, start.model, start.cause, start.root) == (
        "ready",
        version,
        model,
        None,
        "",
    )
    event = start.of("concurrency")
    assert event and event.values["times"] == concurrency


def test_statistics_of_both_engines() -> None:
    old, new = only_start(V06).statistics[-1], only_start(V011).statistics[-1]
    assert (old.running, old.waiting, old.cache_percent, old.hit_percent) == (2, 1, 3.1, None)
    assert (new.running, new.waiting, new.cache_percent, new.hit_percent) == (3, 0, 1.0, 41.5)


@pytest.mark.parametrize(
    ("text", "state"),
    [(V032 + STOP, "stopped"), (V032 + CRASH, "died"), (FAILED, "failed"), (FAILED + V032, "ready")],
)
def test_how_it_ended(text: str, state: str) -> None:
    assert only_start(text).state == state


def test_the_cause_stands_above_the_last_line() -> None:
    assert only_start(FAILED).root == "IndexError: list index out of range"
    assert only_start(V032 + CRASH).root == "RuntimeError: the sampler met a shape it does not know"


@pytest.mark.parametrize(
    ("lines", "root"),
    [
        (["    assert a == b, shape", "AssertionError"], "assert a == b, shape"),
        (
            ["pydantic.ValidationError: 1 validation error for X", "  Value error, no such dtype"],
            "Value error, no such",
        ),
        (["Fatal Python error: Segmentation fault"], "Fatal Python error"),
        (
            [
                "OSError: the disk is gone",
                "RuntimeError: Engine core initialization failed. See root cause above.",
            ],
            "OSE",
        ),
    ],
)
def test_the_first_error_that_is_no_consequence(lines: list[str], root: str) -> None:
    text = "".join(f"(EngineCore pid=3) ERROR 12-01 08:00:09 [core.py:1] {line}\n" for line in lines)
    assert only_start(FAILED.partition("\n")[0] + "\n" + text).root.startswith(root)


STORED = {
    "plain": "{}",
    "with unit": "Tue 2026-12-01 08:00:00 UTC lab-a vllm@chat.service[9]: {}",
    "short": "Dec 01 08:00:00 lab-a vllm-serve[9]: {}",
    "iso": "2026-12-01T08:00:00+0000 lab-a vllm-serve[9]: {}",
    "compose": "vllm-1  | {}",
    "compose with stamps": "vllm-1  | 2026-12-01T08:00:00.123456789Z {}",
    "docker": "2026-12-01T08:00:00.123456789Z {}",
    "pod": "2026-12-01 08:00:00.346 | {}",
    "containerd": "2026-12-01T08:00:00.1+00:00 stderr F {}",
}


@pytest.mark.parametrize("form", STORED)
@pytest.mark.parametrize("process", ["", "(EngineCore_0 pid=7) ", "(VllmWorker rank=1 pid=7) ", "[rank0]: "])
def test_as_it_is_stored(form: str, process: str) -> None:
    said = process + "ValueError: No available memory for the cache blocks. Try increasing the share."
    text = STORED[form].format(said) + "\n"
    assert LOG.recognises(text)
    start = only_start(text)
    assert start.cause and start.cause.wording.check == "vllm.kv-cache-fit"
    assert start.cause.line.startswith("ValueError: No available")


def test_each_unit_of_a_journal_has_its_own_last_start() -> None:
    text = (
        journal(FAILED, starting="vllm@chat.service - vLLM chat: q...")
        + journal(V032, starting="vllm@chat.service - vLLM chat: q...")
        + journal(FAILED, "vllm@code.service", starting="vLLM code: q...")
    )
    starts = {start.instance: start for start in starts_in_journal(Capture("vllm-journal", "ok", text))}
    assert {name: start.state for name, start in starts.items()} == {"chat": "ready", "code": "failed"}
    assert starts["chat"].restarts == 1


def test_a_restart_without_the_words_of_systemd() -> None:
    start = only_start(FAILED + FAILED + FAILED + V032)
    assert (start.state, start.restarts, start.version) == ("ready", 3, "0.32.0")


def test_a_kept_journal_of_one_unit() -> None:
    text = "".join(f"Dec 01 08:00:00 lab-a vllm-serve[9]: {line}\n" for line in V032.splitlines())
    other = "Dec 01 08:00:00 lab-a systemd[1]: web.service: Main process exited, code=killed, status=9/KILL\n"
    own = "Dec 01 08:00:01 lab-a systemd[1]: vllm@chat.service: Main process exited, code=dumped, status=6/ABRT\n"
    assert only_start(text + other).state == "ready"
    assert only_start(text + other + own).state == "died"


def test_a_process_that_was_killed() -> None:
    killed = journal("vllm@chat.service: Main process exited, code=killed, status=9/KILL", "init.scope")
    (start,) = starts_in_journal(Capture("vllm-journal", "ok", journal(V032) + killed))
    assert start.state == "died"


def test_a_journal_without_entries() -> None:
    assert starts_in_journal(Capture("vllm-journal", "ok", "-- No entries --\n")) == ()


def test_a_warning_ends_nothing() -> None:
    start = only_start("WARNING 12-01 08:00:01 [x.py:1] Could not find nvcc, so a slower kernel is used\n")
    assert (start.state, start.cause) == ("starting", None)


def test_other_texts_are_no_logs() -> None:
    with pytest.raises(Unparsable):
        starts_in_file(Capture("vllm-log", "ok", "max_model_len: 4096\n"))


def test_long_service_is_kept_short() -> None:
    asked = 'INFO:     127.0.0.1:4 - "GET /metrics HTTP/1.1" 200 OK\n'
    start = only_start(V032 + V011.splitlines(keepends=True)[-1] * 500 + asked * 500)
    assert start.state == "ready"
    assert len(start.statistics) == 20
    assert len(start.events) < 20


def test_errors_of_earlier_starts_are_over() -> None:
    old = FAILED.replace("IndexError: list index", "RuntimeError: Error 802: system not yet initialized")
    now = Capture(
        "vllm-journal",
        "ok",
        journal(old, starting="vllm@chat.service") + journal(V032, starting="vllm@chat.service"),
    )
    assert errors_from_journal(now).errors == ()
    then = Capture("vllm-journal", "ok", journal(old, starting="vllm@chat.service"))
    assert [error.kind for error in errors_from_journal(then).errors] == ["not ready"]


@pytest.mark.parametrize("wording", wordings(), ids=lambda wording: wording.name)
def test_the_table(wording: object) -> None:
    row = wordings()[wordings().index(wording)]  # type: ignore[arg-type]
    assert bool(row.check) == (row.effect in ("cause", "wrapper", "sign", "symptom"))
    assert bool(row.observed) == bool(row.check)
    assert row.seen_in and row.source and row.says


def test_names_of_sources() -> None:
    assert {"vllm-journal", "vllm-log", "vllm-metrics"} <= {source.name for source in sources()}

"""How a vLLM service fares while it serves: its version, its caches, its queue, and whether it stays up."""

from __future__ import annotations

import re
from collections.abc import Iterator

from qwenhost.checks.declare import Judgement, check, note, skip
from qwenhost.checks.per_vllm import INSTALLED, LOOK, START_CAUSES, Run, came_past, of_each, step
from qwenhost.expectations.software import first_vllm_for_qwen35
from qwenhost.expectations.vllm_limits import limit_origin, vllm_limits
from qwenhost.facts.vllm_metrics import Metrics
from qwenhost.facts.vllm_runs import VllmRuns
from qwenhost.facts.vllm_start import VllmStart
from qwenhost.records.desired import Expectations
from qwenhost.records.finding import Verdict
from qwenhost.records.versions import older, parts

UNNUMBERED = re.compile(r"0\.[01]\.(?:0\.?)?(?:post\d+\.)?dev")
"""What setuptools-scm calls a build from a checkout without tags."""

FAMILY = re.compile(r"qwen[-_ ]?3[._]5", re.IGNORECASE)


@check("vllm.version", remedy=LOOK, consequence_of=INSTALLED)
def version(runs: VllmRuns | None, want: Expectations) -> Iterator[Judgement]:
    """The vLLM that runs is the declared one, knows the model, and has no published hole that a newer one closes.

    An upgrade on disk changes nothing for a process that was not restarted.
    """
    return of_each(runs, want, lambda run: _version(run, want))


def _version(run: Run, want: Expectations) -> Judgement:
    wanted = want.serving.version if want.serving and run.declared else ""
    running = run.start.version if run.start else ""
    if wanted and running and parts(running)[:3] != parts(wanted)[:3]:
        remedy = step("Restart the service.", want)
        return Judgement(run.subject, Verdict.WARN, f"{running} runs", wanted, remedy=remedy)
    if not (running or wanted):
        return skip(run.subject, "the log does not name it")
    return _judged_version(run, running or wanted, want)


def _judged_version(run: Run, found: str, want: Expectations) -> Judgement:
    if UNNUMBERED.match(found):
        return skip(run.subject, f"{found}: built from source, without a version")
    first, safe = first_vllm_for_qwen35(), vllm_limits().security_version
    if older(found, first) and run.start and _is_qwen35(run.start):
        if run.start.told("vllm.architecture"):
            return skip(run.subject, "told by vllm.architecture")
        remedy = step(f"Install vLLM {first} or newer.", want)
        return Judgement(run.subject, Verdict.FAIL, found, f"{first} or newer for Qwen3.5", remedy=remedy)
    if older(found, safe):
        observed, expected = found, f"{safe} or newer, for fixes of published holes"
        return Judgement(run.subject, Verdict.NOTE, observed, expected, origin=limit_origin("security"))
    return Judgement(run.subject, Verdict.PASS, found, f"{safe} or newer", origin=limit_origin("security"))


def _is_qwen35(start: VllmStart) -> bool:
    resolved = start.of("resolved")
    return bool(FAMILY.search(f"{start.model} {resolved.line if resolved else ''}"))


@check("vllm.prefix-cache", remedy=LOOK, consequence_of=(*INSTALLED, *START_CAUSES))
def prefix_cache(runs: VllmRuns | None, want: Expectations) -> Iterator[Judgement]:
    """Whether prompts that begin alike are computed once.

    For a hybrid model whole blocks are cached, of 528 tokens and more: shorter prompts never hit. Some
    versions have it off for such models, and say so only at the start.
    """
    return of_each(runs, want, lambda run: _without_hits(run) or _cached(run))


def _cached(run: Run) -> Judgement:
    off, on = (run.start.of(name) if run.start else None for name in ("prefix-off", "prefix-on"))
    if off and not (on and on.at > off.at):
        return note(run.subject, off.observed, expected="on, where prompts begin alike", evidence=off.line)
    hits = _hit_percent(run)
    if hits:
        return Judgement(run.subject, Verdict.PASS, f"{hits:.1f} % of the prompts' tokens")
    if on:
        return Judgement(run.subject, Verdict.PASS, "on")
    return skip(run.subject, "no prompts yet" if run.serves else "not serving")


def _without_hits(run: Run) -> Judgement | None:
    """Return a note where a hybrid model had prompts and no hit; None where nothing shows that."""
    block, page = _block_size(run), run.metrics
    last = run.start.statistics[-1] if run.start and run.start.statistics else None
    if page and page.prompts_asked is not None and block:
        hopeless = not page.prompts_hit and page.prompts_asked >= block * vllm_limits().least_blocks_asked
        evidence = f"{page.prompts_asked} tokens looked up, {page.prompts_hit or 0} found"
    else:
        hopeless = last is not None and last.hit_percent == 0 and (block is not None or _is_hybrid(run.start))
        evidence = last.line if last else ""
    if not hopeless:
        return None
    size = f"block size {block}, " if block else ""
    return note(run.subject, f"{size}hit rate 0 %", expected="prompts of more than one block", evidence=evidence)


def _is_hybrid(start: VllmStart | None) -> bool:
    on = start.of("prefix-on") if start else None
    return bool(start and (_is_qwen35(start) or (on and "Mamba" in on.line)))


def _block_size(run: Run) -> int | None:
    event = run.start.of("block-size") if run.start else None
    if event:
        return int(event.values["block"])
    return run.metrics.block_size if run.metrics else None


def _hit_percent(run: Run) -> float | None:
    page = run.metrics
    if page and page.prompts_asked:
        return 100 * (page.prompts_hit or 0) / page.prompts_asked
    statistics = run.start.statistics if run.start else ()
    return statistics[-1].hit_percent if statistics else None


@check("vllm.restarts", remedy=LOOK, consequence_of=(*INSTALLED, *START_CAUSES, "vllm.start"))
def restarts(runs: VllmRuns | None, want: Expectations) -> Iterator[Judgement]:
    """The service stays up.

    A service that systemd keeps restarting looks active most of the time, and loads weights most of the
    time. vLLM ends with status 0 even when its worker was killed.
    """
    return of_each(runs, want, lambda run: _ended(run, want))


def _ended(run: Run, want: Expectations) -> Judgement:
    died = run.start if run.start and run.start.state == "died" else None
    return _died(run, died, want) if died else _restarted(run, want)


def _died(run: Run, died: VllmStart, want: Expectations) -> Judgement:
    cause, last = died.cause, died.of("engine-died") or died.of("killed")
    if cause and cause.wording.effect == "cause":
        told = f"told by {cause.wording.check}"
        return note(run.subject, f"the engine died: {cause.observed}", expected=told, evidence=cause.line)
    line = died.root or (last.line if last else "")
    remedy = step("Look at what stands before it in the log, and for Xids and the OOM killer.", want)
    return Judgement(run.subject, Verdict.FAIL, "the engine died", "it stays up", evidence=line, remedy=remedy)


def _restarted(run: Run, want: Expectations) -> Judgement:
    """Judge the count of systemd, or what the log shows where systemd was not asked."""
    count = run.unit.restarts if run.unit else run.start.restarts if run.start else 0
    if not (run.serves or count):
        return came_past(run) or skip(run.subject, "not seen")
    if count >= vllm_limits().restarts:
        remedy = step("Look why it ended: journalctl -b -u 'vllm@*'.", want)
        observed, origin = f"{count} restarts", limit_origin("restarts")
        return Judgement(run.subject, Verdict.WARN, observed, "none", origin=origin, remedy=remedy)
    if count:
        return note(run.subject, f"{count} restarts", expected="none")
    return Judgement(run.subject, Verdict.PASS, "no restarts")


@check("vllm.preemptions", remedy=LOOK, consequence_of=(*INSTALLED, *START_CAUSES))
def preemptions(runs: VllmRuns | None, want: Expectations) -> Iterator[Judgement]:
    """Requests that run are seldom thrown back.

    When the KV cache is full, a running request loses its cache and is computed anew: its answer comes
    late, and the GPU works twice.
    """
    return of_each(runs, want, lambda run: _counted(run, run.metrics, want) if run.metrics else _told(run, want))


PREEMPTED = "Lower max-num-seqs or max-model-len, raise gpu-memory-utilization, or use more GPUs."


def _counted(run: Run, page: Metrics, want: Expectations) -> Judgement:
    if page.preemptions is None:
        return skip(run.subject, "not counted by this version")
    limits, finished = vllm_limits(), page.finished or 0
    observed = f"{page.preemptions} preemptions, {finished} requests"
    many = 100 * page.preemptions >= limits.preemptions_percent * finished
    return _preempted(run, page.preemptions, observed, want, many=many)


def _told(run: Run, want: Expectations) -> Judgement:
    last = run.start.of("preempted") if run.start else None
    if last is None or run.start is None:
        return came_past(run) or Judgement(run.subject, Verdict.PASS, "none in the log")
    lines = sum(event.wording.name == "preempted" for event in run.start.events)
    count = max(int(last.values.get("count") or 0), lines)
    return _preempted(run, count, f"{count} preemptions", want, evidence=last.line)


def _preempted(
    run: Run, count: int, observed: str, want: Expectations, *, many: bool = True, evidence: str = ""
) -> Judgement:
    if not count:
        return Judgement(run.subject, Verdict.PASS, observed, "none")
    loud = many and count >= vllm_limits().preemptions
    verdict = Verdict.WARN if loud else Verdict.NOTE
    origin, remedy = limit_origin("preemptions"), step(PREEMPTED, want)
    return Judgement(run.subject, verdict, observed, "none or few", evidence, origin, remedy if loud else None)


@check("vllm.queue", remedy=LOOK, consequence_of=(*INSTALLED, *START_CAUSES))
def queue(runs: VllmRuns | None, want: Expectations) -> Iterator[Judgement]:
    """Requests do not wait for long.

    When as many wait as run, over several lines of statistics, the service is asked for more than it can
    do, or something stands still.
    """
    return of_each(runs, want, lambda run: _queue(run, want))


def _queue(run: Run, want: Expectations) -> Judgement:
    limits = vllm_limits()
    samples, evidence = _samples(run, limits.queue_lines)
    if not samples:
        return came_past(run) or skip(run.subject, "no statistics yet")
    running, waiting = samples[-1]
    observed = f"{waiting} wait, {running} run"
    if all(wait and wait >= runs_now * limits.waiting_per_running for runs_now, wait in samples):
        remedy = step(
            "Spread the load, raise max-num-seqs if the KV cache has room, or look why nothing runs.", want
        )
        origin = limit_origin("queue")
        return Judgement(run.subject, Verdict.WARN, observed, "fewer wait than run", evidence, origin, remedy)
    if waiting:
        return note(run.subject, observed, evidence=evidence)
    return Judgement(run.subject, Verdict.PASS, observed)


def _samples(run: Run, lines: int) -> tuple[list[tuple[int, int]], str]:
    """Return (running, waiting) of the last moments that were seen, and the last line of them."""
    page = run.metrics
    if page and page.running is not None and page.waiting is not None:
        return [(page.running, page.waiting)], ""
    last = run.start.statistics[-lines:] if run.start else ()
    return [(line.running, line.waiting) for line in last], last[-1].line if last else ""

"""Why a vLLM service did not start: each kind of cause is a check, and tells the story alone."""

from __future__ import annotations

from collections.abc import Container, Iterator

from qwenhost.checks.declare import Judgement, check, note, skip
from qwenhost.checks.per_vllm import (
    INSTALLED,
    LOOK,
    START_CAUSES,
    Run,
    came_past,
    declared,
    each_run,
    of_each,
    start_causes,
    step,
)
from qwenhost.expectations.software import first_vllm_for_qwen35
from qwenhost.expectations.vllm_limits import limit_origin, vllm_limits
from qwenhost.facts.driver import DriverAnswer
from qwenhost.facts.gpus import Gpus
from qwenhost.facts.vllm_runs import VllmRuns
from qwenhost.facts.vllm_start import VllmStart
from qwenhost.records.desired import Expectations
from qwenhost.records.finding import Verdict
from qwenhost.records.versions import older

ARCHITECTURE = "Install a vLLM release that lists the model, with the Transformers that it requires."


@check("vllm.architecture", remedy=declared(ARCHITECTURE), consequence_of=INSTALLED)
def architecture(runs: VllmRuns | None, want: Expectations) -> Iterator[Judgement]:
    """The installed vLLM and its Transformers know the model's architecture.

    A model that is newer than the software is refused before any weight is read. Upgrading Transformers
    alone seldom helps: the vLLM release has to know the model as well.
    """
    remedy = f"{ARCHITECTURE} Qwen3.5 needs {first_vllm_for_qwen35()} or newer."
    yield from start_causes("vllm.architecture", runs, want, remedy, lambda run: _sign(run, "resolved"))
    for run, start in _started(runs, want):
        fallback = start.of("fallback")
        if fallback and start.was_ready:
            yield note(
                run.subject, fallback.observed, expected="vLLM's own implementation", evidence=fallback.line
            )


COMPARED = "auto, or answers compared with those of BF16"

FP8 = "Serve BF16, INT4 or block FP8 through Marlin, with kv-cache-dtype auto."


@check("vllm.fp8-on-sm80", remedy=declared(FP8), consequence_of=INSTALLED)
def fp8_on_sm80(runs: VllmRuns | None, want: Expectations) -> Iterator[Judgement]:
    """FP8 is used as the GPU can use it.

    The A100 has no FP8 tensor cores. FP8 weights run there as weight-only FP8 (Marlin): memory and decode
    gain, prefill does not. Other FP8 kernels, and most of the FP8 KV cache, stop the start.
    """
    yield from start_causes("vllm.fp8-on-sm80", runs, want, FP8)
    ampere = bool(want.sku and want.sku.family in vllm_limits().families_without_fp8)
    for run, start in _started(runs, want):
        weights, cache = start.of("marlin"), start.of("fp8-cache")
        if weights:
            yield note(run.subject, weights.observed, expected="no gain in prefill", evidence=weights.line)
        if cache and start.was_ready and (ampere or weights):
            yield note(run.subject, cache.observed, expected=COMPARED, evidence=cache.line)
    for instance in want.serving.instances if want.serving and ampere else ():
        asked = str(instance.args.get("kv-cache-dtype", ""))
        if asked.startswith("fp8"):
            yield note(f"vllm@{instance.name}", f"kv-cache-dtype {asked} is declared", expected=COMPARED)


FREE_MEMORY = (
    "Look who holds memory (nvidia-smi), and end it; else lower gpu-memory-utilization, max-num-seqs or"
    " max-num-batched-tokens, or spread the model over more GPUs."
)


@check("vllm.free-memory", remedy=declared(FREE_MEMORY), consequence_of=INSTALLED)
def free_memory(runs: VllmRuns | None, want: Expectations) -> Iterator[Judgement]:
    """The GPU had the memory that the service asked for.

    vLLM takes its share when it starts. What another process or the service's own last run still holds is
    missing then; without room above the share, a later peak ends the engine while it serves.
    """
    yield from start_causes("vllm.free-memory", runs, want, FREE_MEMORY)


KV_CACHE = "Lower max-model-len to what fits, raise gpu-memory-utilization, or use more GPUs."


@check("vllm.kv-cache-fit", remedy=declared(KV_CACHE), consequence_of=INSTALLED)
def kv_cache_fit(runs: VllmRuns | None, want: Expectations) -> Iterator[Judgement]:
    """The KV cache holds at least one request of the full context length.

    What is left of the GPU's share after weights and activations is cache. vLLM refuses to start where
    one request of max_model_len does not fit.
    """
    yield from start_causes("vllm.kv-cache-fit", runs, want, KV_CACHE, _fits)


def _fits(run: Run) -> str:
    counted = run.metrics.concurrency if run.metrics else None
    return f"{counted:.1f} requests of full length" if counted else _sign(run, "concurrency")


def _sign(run: Run, name: str) -> str:
    event = run.start.of(name) if run.start else None
    return event.observed if event else "it started"


MAMBA_BLOCKS = "Set max-num-seqs to at most the number of blocks that the log names."


@check("vllm.mamba-blocks", remedy=declared(MAMBA_BLOCKS), consequence_of=INSTALLED)
def mamba_blocks(runs: VllmRuns | None, want: Expectations) -> Iterator[Judgement]:
    """There are as many Mamba cache blocks as requests may run at once.

    Qwen3.5 keeps the state of its linear attention per running request, in one block each. The default of
    max_num_seqs can be larger than the pool, and then CUDA graphs cannot be captured.
    """
    yield from start_causes("vllm.mamba-blocks", runs, want, MAMBA_BLOCKS)


MAMBA_BATCH = (
    "Raise max-num-batched-tokens to at least one block; for the assertion on cache lines lower"
    " max-cudagraph-capture-size or max-num-seqs."
)


@check("vllm.mamba-batch", remedy=declared(MAMBA_BATCH), consequence_of=INSTALLED)
def mamba_batch(runs: VllmRuns | None, want: Expectations) -> Iterator[Judgement]:
    """Batches and blocks of the hybrid cache fit one another.

    A block of Qwen3.5's cache has hundreds of tokens. Older versions need a whole block per step, and CUDA
    graphs for no more requests than the Mamba cache has lines.
    """
    yield from start_causes("vllm.mamba-batch", runs, want, MAMBA_BATCH)


CONTEXT_LENGTH = (
    "Lower max-model-len to the model's own length, or give the YaRN parameters of its card (hf-overrides)."
)


@check("vllm.context-length", remedy=declared(CONTEXT_LENGTH), consequence_of=INSTALLED)
def context_length(runs: VllmRuns | None, want: Expectations) -> Iterator[Judgement]:
    """The context length is one that the model was made for.

    Beyond max_position_embeddings positions have no meaning: vLLM refuses it unless it is overridden, and
    then answers may be nonsense. A longer context needs the model's own YaRN parameters.
    """
    yield from start_causes("vllm.context-length", runs, want, CONTEXT_LENGTH)
    for run, start in _started(runs, want):
        beyond, refused = start.of("beyond-derived"), start.of("request-too-long")
        if beyond and (start.was_ready or beyond.mild):
            observed, expected = beyond.observed, beyond.expected
            yield Judgement(
                run.subject,
                Verdict.WARN,
                observed,
                expected,
                evidence=beyond.line,
                remedy=step(CONTEXT_LENGTH, want),
            )
        if refused:
            yield note(run.subject, refused.observed, expected=refused.expected, evidence=refused.line)


@check("vllm.mig-device", remedy=LOOK, consequence_of=(*INSTALLED, "mig.layout"))
def mig_device(runs: VllmRuns | None, want: Expectations) -> Iterator[Judgement]:
    """vLLM can address the device that it was given.

    Older versions read CUDA_VISIBLE_DEVICES as numbers and stop at the UUID of a MIG device or GPU. One
    process gets one MIG device; tensor parallelism does not span them.
    """
    needed = vllm_limits().uuids_version
    remedy = f"Install vLLM {needed} or newer, or give it whole GPUs by number."
    yield from start_causes("vllm.mig-device", runs, want, remedy)
    for run in each_run(runs, want):
        if run.declared and run.declared.mig and not run.serves:
            yield from _on_slice(run.subject, run.declared.mig, want)


def _on_slice(subject: str, mig: str, want: Expectations) -> Iterator[Judgement]:
    """Warn of a version that cannot run on a MIG device before it is tried."""
    serving, needed = want.serving, vllm_limits().uuids_version
    if serving and serving.package == "vllm" and older(serving.version, needed):
        observed, expected = f"vLLM {serving.version} on MIG {mig}", f"{needed} or newer"
        remedy, origin = step(f"Declare vLLM {needed} or newer.", want), limit_origin("uuids")
        yield Judgement(subject, Verdict.WARN, observed, expected, origin=origin, remedy=remedy)


@check("vllm.start", remedy=LOOK, consequence_of=(*INSTALLED, "vllm.model-files", *START_CAUSES))
def came_up(
    runs: VllmRuns | None, answer: DriverAnswer | None, gpus: Gpus | None, want: Expectations
) -> Iterator[Judgement]:
    """The last start came as far as serving, or another check tells why not.

    "Engine core initialization failed" is never the cause: that stands above it, often from another
    process. Shown is the first error that is no consequence of another one.
    """
    ours = {"vllm.start"}
    if answer and answer.state == "ok":
        ours.add("driver.present")
    if not (gpus and any(gpu.mig for gpu in gpus.gpus)):
        ours |= {"mig.one-per-process", "mig.p2p"}
    return of_each(runs, want, lambda run: _how_it_came_up(run, ours, want))


def _how_it_came_up(run: Run, ours: Container[str], want: Expectations) -> Judgement:
    if run.start and run.start.state == "failed":
        return _failed(run, run.start, ours, want)
    if run.start and run.start.state == "starting" and run.start.root and not run.serves:
        return _said_error(run.subject, run.start.root, want)
    return _went_on(run)


READ = "Read what stands above it in the log, such as journalctl -b -u 'vllm@*'."


def _said_error(subject: str, line: str, want: Expectations) -> Judgement:
    """Warn of an error in a log that does not show whether the start ended there."""
    expected, remedy = "an engine that starts", step(READ, want)
    return Judgement(subject, Verdict.WARN, "an error while it starts", expected, evidence=line, remedy=remedy)


def _failed(run: Run, failed: VllmStart, ours: Container[str], want: Expectations) -> Judgement:
    """Judge a failed start; `ours` are the checks whose causes nobody else tells."""
    cause = failed.cause
    if cause and cause.wording.check in START_CAUSES:
        return skip(run.subject, f"told by {cause.wording.check}")
    if cause and cause.wording.check not in ours:
        return note(run.subject, cause.observed, expected=f"told by {cause.wording.check}", evidence=cause.line)
    if cause:
        observed, expected, line = cause.observed, cause.expected, cause.line
    else:
        observed, expected = "did not start", "an engine that starts"
        line = failed.root or "the cause stands above what was kept of the log"
    remedy = step(READ, want)
    return Judgement(run.subject, Verdict.FAIL, observed, expected, evidence=line, remedy=remedy)


def _went_on(run: Run) -> Judgement:
    hangs = run.start.of("hangs") if run.start else None
    ready = run.start.of("ready") if run.start else None
    if hangs and not run.answers and not (ready and ready.at > hangs.at):
        expected = "Xids, NCCL, PCIe ACS and IOMMU looked at"
        return note(run.subject, hangs.observed, expected=expected, evidence=hangs.line)
    serves = "it serves" if run.answers or run.metrics else "it came as far as serving"
    return came_past(run) or Judgement(run.subject, Verdict.PASS, serves)


def _started(runs: VllmRuns | None, want: Expectations) -> Iterator[tuple[Run, VllmStart]]:
    for run in each_run(runs, want):
        if run.start:
            yield run, run.start

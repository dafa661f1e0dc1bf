"""A measured ladder for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from qwenhost.records.load import Comparison, Gain, Ladder, Step, Trial


def ladder_lines(ladder: Ladder, against: Sequence[Comparison]) -> Iterator[str]:
    """Yield a table: one row per concurrency, with the ratio to the baseline where there is one."""
    version = f", vLLM {ladder.vllm}" if ladder.vllm else ""
    yield (
        f"{ladder.service}: {ladder.model}{version}, {ladder.input_tokens} tokens in, "
        f"{ladder.output_tokens} out, {ladder.measured_at}"
    )
    yield f"{'at a time':>10} {'output tok/s':>13} {'TTFT p50':>10} {'p99 ms':>9} {'TPOT p50':>9} {'p99 ms':>8}"
    ratios = {one.concurrency: one for one in against}
    ceilings = dict(zip((step.concurrency for step in ladder.steps), ladder.roofline, strict=False))
    for step in ladder.steps:
        row = f"{step.concurrency:10} {step.output_tokens_per_s:13.1f}"
        row += f" {step.ttft_median_ms:10.1f} {step.ttft_p99_ms:9.1f}"
        row += f" {step.tpot_median_ms:9.2f} {step.tpot_p99_ms:8.2f}"
        yield row + _share(step, ceilings) + _told(ratios.get(step.concurrency)) + _marks(step)


def _share(step: Step, ceilings: Mapping[int, float]) -> str:
    ceiling = ceilings.get(step.concurrency)
    return f"  {step.output_tokens_per_s / ceiling:.0%} of the estimated {ceiling:.0f}" if ceiling else ""


def _marks(step: Step) -> str:
    failed = f"  {step.failed} failed" if step.failed else ""
    cached = f"  {step.cached_share:.0%} of the prompts were cached" if (step.cached_share or 0) >= 0.01 else ""
    return failed + cached


def _told(one: Comparison | None) -> str:
    if one is None:
        return ""
    verdict = "" if one.holds else "  SLOWER"
    return f"  x{one.output_tokens_ratio:.2f} tokens/s, x{one.ttft_p99_ratio:.2f} TTFT p99{verdict}"


def trial_lines(trial: Trial) -> Iterator[str]:
    """Yield what a service's own options gain: one row per concurrency, both orders told."""
    own = trial.own[0]
    yield (
        f"{own.service}: {own.model}, vLLM {own.vllm}, {own.input_tokens} tokens in, {own.output_tokens} out: "
        "own options over vLLM's defaults"
    )
    yield from (f"  the defaults do not start: {why}" for why in trial.refusals)
    if trial.kept:
        yield f"  kept beside the defaults: {', '.join(f'{name} {value}' for name, value in trial.kept.items())}"
    heads = f"{'output tok/s':>24} {'with defaults':>24} {'gain':>6} {'pairs':>13} {'TTFT p99':>13}"
    yield f"{'at a time':>10} {heads}"
    for place, gain in enumerate(trial.gains):
        rates = (
            " ".join(f"{ladder.steps[place].output_tokens_per_s:11.1f}" for ladder in kind)
            for kind in (trial.own, trial.defaults)
        )
        yield f"{gain.concurrency:10}  {'  '.join(rates)}" + _gained(gain)


def _gained(gain: Gain) -> str:
    pairs, times = (
        " ".join(f"x{ratio:.2f}" for ratio in ratios)
        for ratios in (gain.output_tokens_ratios, gain.ttft_p99_ratios)
    )
    differs = "" if gain.agree else "  no difference beyond the noise"
    failed = f"  {gain.failed} failed" if gain.failed else ""
    cached = f"  {gain.cached_share:.0%} of the prompts were cached" if (gain.cached_share or 0) >= 0.01 else ""
    return f" {f'x{gain.ratio:.2f}':>6} {pairs:>13} {times:>13}{differs}{failed}{cached}"

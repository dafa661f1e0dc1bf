"""The model's files on disk are the verified ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from qwenhost.checks.declare import Judgement, check
from qwenhost.checks.vllm import NOT_SERVED, serves
from qwenhost.facts.model_files import FileState, ModelFiles, VerifiedModels
from qwenhost.records.desired import Expectations
from qwenhost.records.finding import Verdict, by_role

VERIFY = by_role(
    "vllm_service",
    "Run qwenhost provision: it reads the files that differ and names each that is not as promised;"
    " bring such a file again.",
)


@check("vllm.model-files", remedy=VERIFY, applies=serves, skipped=NOT_SERVED, consequence_of=("vllm.installed",))
def model_files(found: ModelFiles, verified: VerifiedModels, want: Expectations) -> Iterator[Judgement]:
    """Weights, config and tokenizer are the files that were verified by their sums.

    A truncated file ends the next start after the old process is gone; other bytes of the same length load
    without a word and answer nonsense.
    """
    path = want.serving.model_path if want.serving else ""
    if path not in found.folders:
        yield Judgement(path, Verdict.UNKNOWN, "not asked for")
        return
    files, known = found.folders[path], verified.folders.get(path)
    if files is None:
        yield Judgement(path, Verdict.FAIL, "not there", "the model")
    elif known is None:
        yield Judgement(path, Verdict.UNKNOWN, "never verified", "sizes and sums compared")
    else:
        yield from _compared(path, files, known, verified.at[path])


def _compared(
    path: str, files: Mapping[str, FileState], known: Mapping[str, FileState], at: str
) -> Iterator[Judgement]:
    other = {name: was for name, was in known.items() if files.get(name) != was}
    for name, was in sorted(other.items()):
        observed, expected = _difference(files.get(name), was)
        yield Judgement(f"{path}/{name}", Verdict.FAIL, observed, f"{expected}, verified {at}")
    if not other:
        yield Judgement(path, Verdict.PASS, f"{len(known)} files as verified {at}")


def _difference(now: FileState | None, was: FileState) -> tuple[str, str]:
    if now is None:
        return "not there", f"{was.bytes} bytes"
    if now.bytes != was.bytes:
        return f"{now.bytes} bytes", f"{was.bytes} bytes"
    return f"changed {now.changed_at}", f"last changed {was.changed_at}"

"""What all checks that read a log say alike: when something stood in it, and that nothing did."""

from __future__ import annotations

from qwenhost.checks.declare import Judgement
from qwenhost.records.finding import Verdict


def when(first: str, last: str) -> str:
    """Return both stamps as printed; empty where there is none, or only the step since the line before."""
    if not first or first.startswith("+"):
        return ""
    return f"at {first}" if first == last else f"first at {first}, last at {last}"


def nothing(observed: str, *, cut: bool) -> Judgement:
    """Nothing of the kind stands in the log; of a log that is not whole, nobody knows."""
    if cut:
        return Judgement(
            "host", Verdict.UNKNOWN, f"{observed} in what was read: the log is not whole", "the whole log"
        )
    return Judgement("host", Verdict.PASS, observed)

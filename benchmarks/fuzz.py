"""Damaged captures against the doctor: `python -m benchmarks.fuzz [--captures N] [--seed N] [--bundle PATH ...]`.

Prints how many were tried, in how many seconds, the slowest, and what fell; ends with 1 when anything fell. Every
finding names its seed: `--seed N --captures 1` repeats it.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

from qwenhost.checks.engine import FAILED_ITSELF
from qwenhost.expectations.declared import read_declared
from qwenhost.records.bundle import Bundle
from qwenhost.records.errors import QwenhostError
from qwenhost.reports import json_report, text
from qwenhost.transports.recorded import read
from qwenhost.workflows.doctor import examine_bundle
from tests.mutations import grown, mutated

ROOT = Path(__file__).resolve().parents[1]

SLOW_SECONDS = 2.0
"""More than any damage to a capture of ordinary size may cost, on a machine that does nothing else."""


def main() -> int:
    """Try as many as asked; return the exit code."""
    asked = _arguments()
    bases = [grown(read(path)) for path in asked.bundle or map(str, sorted(ROOT.glob("tests/bundles/*/")))]
    fell: Counter[str] = Counter()
    times: list[tuple[float, int]] = []
    tried, seed = 0, asked.seed
    while tried < asked.captures:
        dice = random.Random(seed)
        count = dice.randrange(1, 9)
        started = time.process_time()
        fell.update(f"{what} (first: seed {seed})" for what in _examined(mutated(dice, dice.choice(bases), count)))
        times.append((time.process_time() - started, seed))
        tried, seed = tried + count, seed + 1
    seconds, worst = max(times)
    print(f"{tried} damaged captures in {len(times)} bundles: {sum(time for time, _ in times):.1f} s of processor")
    print(f"slowest bundle: {seconds:.2f} s (seed {worst})")
    for what, count in _by_kind(fell).most_common():
        print(f"fell {count} x {what}")
    return 1 if fell or seconds > SLOW_SECONDS else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captures", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bundle", action="append", help="what to damage; the test bundles by default")
    return parser.parse_args()


def _examined(bundle: Bundle) -> list[str]:
    """Return what broke: an exception, or a check that gave up."""
    try:
        report = examine_bundle(bundle, read_declared({}, host="fuzz"))
        json_report.render([report])
        text.render([report])
    except QwenhostError:
        return []
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return [f"{type(error).__name__} in {Path(place.filename).name}:{place.lineno}: {str(error)[:80]}"]
    return [
        f"{finding.check}: {finding.observed[:100]}"
        for finding in report.findings
        if finding.observed.startswith(FAILED_ITSELF)
    ]


def _by_kind(fell: Counter[str]) -> Counter[str]:
    """Join what differs in the seed alone; the first seed stays."""
    first: dict[str, str] = {}
    joined: Counter[str] = Counter()
    for what, count in fell.items():
        joined[first.setdefault(what.partition(" (first")[0], what)] += count
    return joined


if __name__ == "__main__":
    sys.exit(main())

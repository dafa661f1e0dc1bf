"""The hands: `hands.pyz ACT [--check] [--config FILE] < request.json`, an answer in JSON on stdout."""

from __future__ import annotations

import argparse
import json
import sys
from importlib import import_module
from typing import Any

from qwenhost.hands.answer import BadRequest, Refused, why

ACTS = {
    "sysctl": "qwenhost.hands.sysctl",
    "thp": "qwenhost.hands.thp",
    "hugepages": "qwenhost.hands.hugepages",
    "mig": "qwenhost.hands.mig",
    "wait-gpu": "qwenhost.hands.wait_gpu",
    "http": "qwenhost.hands.loopback",
}
DONE, FAILED, USAGE = 0, 1, 2


def main() -> None:
    """Do one act. Exit 0: done; 1: failed, with {"error"}; 2: not an act or not a request, with {"error"}."""
    parser = argparse.ArgumentParser(prog="hands.pyz", description=__doc__)
    parser.add_argument("act", choices=list(ACTS))
    parser.add_argument("--check", action="store_true", help="say what would change, change nothing")
    parser.add_argument("--config", metavar="FILE", help="read the request from this file, not from stdin")
    options = parser.parse_args()
    status, answer = _answer(options.act, options.check, options.config)
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.exit(status)


def _answer(act: str, check: bool, config: str | None) -> tuple[int, dict[str, Any]]:
    """Return the exit status and the answer."""
    try:
        request = _request(config)
    except (ValueError, OSError) as error:
        return USAGE, {"error": "{}: not a request: {}".format(config or "stdin", why(error))}
    try:
        return DONE, import_module(ACTS[act]).run(request, check)
    except (BadRequest, KeyError, TypeError, ValueError, AttributeError) as error:
        return USAGE, {"error": "{}: not a request for this act: {}".format(act, _named(error))}
    except (Refused, OSError) as error:
        return FAILED, {"error": "{}: {}".format(act, why(error))}


def _request(config: str | None) -> dict[str, Any]:
    if config is None:
        request = json.loads(sys.stdin.read())
    else:
        with open(config, encoding="utf-8") as file:
            request = json.load(file)
    if not isinstance(request, dict):
        raise ValueError("a JSON object is wanted")
    return request


def _named(error: BaseException) -> str:
    return "{} is missing".format(error) if isinstance(error, KeyError) else why(error)

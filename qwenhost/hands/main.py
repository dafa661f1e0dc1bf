"""The hands: `hands.pyz ACT [--check] [--config FILE] < request.json`, an answer in JSON on stdout."""

from __future__ import annotations

import argparse
import json
import sys
from importlib import import_module
from typing import Any, Callable

from qwenhost.hands.answer import BadRequest, Refused, why

ACTS = {
    "sysctl": "sysctl:run",
    "thp": "thp:run",
    "hugepages": "hugepages:run",
    "kernel-args": "grub:run",
    "tuning": "tuning:run",
    "mig": "mig:run",
    "driver": "driver:run",
    "driver-look": "driver:look",
    "wait-gpu": "wait_gpu:run",
    "api-key": "api_key:run",
    "model": "model_files:run",
    "model-fetch": "model_fetch:fetch",
    "model-room": "model_fetch:room",
    "model-place": "model_fetch:place",
    "switch-keep": "switch:keep",
    "switch-back": "switch:back",
    "switch-prove": "switch:prove",
    "serve-with": "other_options:serve_with",
    "serve-own": "other_options:serve_own",
    "http": "loopback:run",
    "bench": "bench:run",
    "begin": "runs:begin",
    "end": "runs:end",
    "runs": "runs:runs",
    "rollback": "runs:rollback",
}
"""Act -> module of this package and its function, called with the request and whether to change nothing."""

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
        return DONE, _function(act)(request, check)
    except (BadRequest, KeyError, TypeError, ValueError, AttributeError) as error:
        return USAGE, {"error": "{}: not a request for this act: {}".format(act, _named(error))}
    except (Refused, OSError) as error:
        return FAILED, {"error": "{}: {}".format(act, why(error))}


def _function(act: str) -> Callable[[dict[str, Any], bool], dict[str, Any]]:
    module, _, name = ACTS[act].partition(":")
    function: Callable[[dict[str, Any], bool], dict[str, Any]] = getattr(
        import_module("qwenhost.hands." + module), name
    )
    return function


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

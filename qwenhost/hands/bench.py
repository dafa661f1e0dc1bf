"""One run of `vllm bench serve` against a service on this machine; the key is read here and is never in argv."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from typing import Any

from qwenhost.hands.answer import BadRequest, Refused

SECONDS = 3600
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
NUMBERS = ("input_tokens", "output_tokens", "concurrency", "requests")


def run(request: dict[str, Any], check: bool = False) -> dict[str, Any]:
    """Load a service: {"program": [words], "base_url", "model", "tokenizer", "seed", and the NUMBERS}.

    Returns {"result": the JSON that vLLM wrote}; with {"key_file"} the key in that file is sent. Raises Refused.
    """
    for number in NUMBERS:
        if not isinstance(request[number], int) or request[number] < 1:
            raise BadRequest("{} is a number of at least 1".format(number))
    if check:
        return {"changed": False}
    with tempfile.TemporaryDirectory(prefix="qwenhost-bench-") as folder:
        ran = _run(arguments(request, folder), _environment(request))
        try:
            with open(os.path.join(folder, "result.json"), encoding="utf-8") as file:
                return {"changed": False, "result": json.load(file)}
        except (OSError, ValueError) as error:
            raise Refused("vllm bench serve wrote no result: {}".format(_last_line(ran))) from error


def arguments(request: dict[str, Any], folder: str) -> list[str]:
    """Return the command line, as vLLM 0.17 to 0.33 takes it."""
    return [
        *(*request["program"], "bench", "serve"),
        *("--backend", "openai-chat", "--endpoint", "/v1/chat/completions"),
        *("--base-url", request["base_url"], "--model", request["model"]),
        *("--tokenizer", request["tokenizer"]),
        *("--dataset-name", "random", "--ignore-eos", "--seed", str(request["seed"])),
        *("--random-input-len", str(request["input_tokens"])),
        *("--random-output-len", str(request["output_tokens"])),
        *("--num-prompts", str(request["requests"]), "--max-concurrency", str(request["concurrency"])),
        *("--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "50,99"),
        *("--save-result", "--result-dir", folder, "--result-filename", "result.json"),
    ]


def _environment(request: dict[str, Any]) -> dict[str, str]:
    environment = {**os.environ, **OFFLINE}
    if request.get("key_file"):
        try:
            with open(request["key_file"], encoding="utf-8") as file:
                environment["OPENAI_API_KEY"] = file.read().strip()
        except OSError as error:
            raise Refused("{}: {}".format(request["key_file"], error.strerror)) from error
    return environment


def _run(argv: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            argv,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
            universal_newlines=True,
            errors="replace",
        )
    except OSError as error:
        raise Refused("{}: {}".format(argv[0], error.strerror)) from error
    except subprocess.TimeoutExpired as error:
        raise Refused("vllm bench serve did not end in {} s".format(SECONDS)) from error


def _last_line(ran: subprocess.CompletedProcess[str]) -> str:
    lines = [line.strip() for line in ran.stdout.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "exit code {}".format(ran.returncode)

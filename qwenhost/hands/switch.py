"""A switch to another vLLM that can be taken back: what served before is kept until the new one is proven."""

from __future__ import annotations

import json
import os
from typing import Any

from qwenhost.hands import kernel, snapshot, systemd
from qwenhost.hands.answer import Refused, outcome, why

SCHEMA = 1
CURRENT = "opt/qwenhost/vllm/current"
KEPT = "var/lib/qwenhost/vllm/before-switch.json"
MARK = "var/lib/qwenhost/vllm/unproven"
"""There from the switch until the new version has proven itself: read by the check vllm.installed."""

UNITS = ("vllm@*.service", "vllm-proxy.service")
FILES = (
    "etc/qwenhost/vllm/**",
    "etc/systemd/system/vllm@.service",
    "etc/systemd/system/vllm-proxy.service",
    "etc/systemd/system/vllm@*.service.d/**",
    "etc/systemd/system/*.wants/vllm@*.service",
    "etc/systemd/system/*.wants/vllm-proxy.service",
    "usr/local/lib/qwenhost/**",
    "var/lib/qwenhost/vllm/*.applied",
    CURRENT,
)
"""What makes the services what they are; the environments of both versions are there side by side."""


def keep(request: dict[str, Any], check: bool = False) -> dict[str, Any]:
    """Keep what serves now before {"to"} does. What an interrupted switch has kept stays: it was proven.

    The answer has "kept", the version that can be gone back to, empty for none.
    """
    kept, now = _kept(), _current()
    if not kept and now and now != request["to"] and not check:
        kept = {"from": now, "files": snapshot.files(FILES), "units": systemd.running(*UNITS)}
        _write(KEPT, json.dumps({"schema": SCHEMA, **kept}), 0o600)
    if kept and not check:
        _write(MARK, "{} in place of {}\n".format(request["to"], kept["from"]), 0o644)
    return {**outcome([], []), "kept": kept.get("from", "")}


def back(request: dict[str, Any], check: bool = False) -> dict[str, Any]:
    """Bring back what was kept, and start what ran then: {"units"} are starting. Raises Refused."""
    kept = _kept()
    if not kept:
        raise Refused("nothing was kept to go back to")
    if check:
        return {**outcome([], []), "units": kept["units"]}
    running = systemd.running(*UNITS)
    if running:
        systemd.call("stop", *running)
    snapshot.restore_files(kept["files"], FILES)
    systemd.call("daemon-reload")
    for unit in kept["units"]:
        systemd.call("reset-failed", unit)
        systemd.call("start", "--no-block", unit)
    prove(request)
    return {**outcome([], ["vLLM {}".format(kept["from"])]), "units": kept["units"]}


def prove(request: dict[str, Any], check: bool = False) -> dict[str, Any]:
    """Forget what was kept: what serves now is what will be gone back to."""
    for path in () if check else (MARK, KEPT):
        if os.path.exists(kernel.path_of(path)):
            os.unlink(kernel.path_of(path))
    return outcome([], [])


def _current() -> str:
    try:
        return os.path.basename(os.readlink(kernel.path_of(CURRENT)))
    except OSError:
        return ""


def _kept() -> dict[str, Any]:
    try:
        with open(kernel.path_of(KEPT), encoding="utf-8") as file:
            kept = json.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise Refused("{} cannot be read: {}".format(KEPT, why(error))) from error
    return dict(kept)


def _write(path: str, text: str, mode: int) -> None:
    """Write a file whole; the kept state holds the API key."""
    real = kernel.path_of(path)
    os.makedirs(os.path.dirname(real), mode=0o755, exist_ok=True)
    descriptor = os.open(real + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(real + ".new", real)

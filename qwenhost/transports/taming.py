"""Answers without lines of any length: of a live host, as of one that somebody recorded."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from qwenhost.records.bundle import Bundle, Capture
from qwenhost.transports.excerpts import tamed


def tamed_bundle(bundle: Bundle) -> Bundle:
    """Return a bundle without endless lines and endless blanks, also inside JSON; most have none."""
    return replace(bundle, captures=tuple(map(_tamed_capture, bundle.captures)))


def _tamed_capture(capture: Capture) -> Capture:
    return replace(capture, text=_tamed_json(capture.text) or tamed(capture.text))


def _tamed_json(text: str) -> str:
    """Return JSON with its texts tamed; nothing for what is none."""
    try:
        return json.dumps(_tamed_value(json.loads(text))) if text.startswith("{") else ""
    except (ValueError, RecursionError):
        return ""


def _tamed_value(value: Any) -> Any:
    if isinstance(value, str):
        return tamed(value)
    if isinstance(value, dict):
        return {key: _tamed_value(inner) for key, inner in value.items()}
    return [_tamed_value(inner) for inner in value] if isinstance(value, list) else value

"""The variable qwenhost_vllm.upgrade: how a new version of vLLM has to prove itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qwenhost.expectations.reader import Reader
from qwenhost.expectations.tables import table

FILE = "vllm/upgrade.yaml"
DROP = "throughput_drop_percent"
LOAD = ("concurrency", "input_tokens", "output_tokens")


def read_upgrade(reader: Reader, key: str, value: Any) -> Mapping[str, int]:
    """Return the load and the throughput that may be lost (percent; 100: nothing is measured), figures of ours
    where the inventory has none.
    """
    given = reader.mapping(key, value or {})
    reader.only(key, given, {DROP, *LOAD})
    figures = table(FILE)
    known = {DROP: figures[DROP]["most"], **{name: figures["load"][name] for name in LOAD}}
    drop = {DROP: reader.integer(f"{key}.{DROP}", given.get(DROP, known[DROP]), 1, 100)}
    return drop | {
        name: reader.integer(f"{key}.{name}", given.get(name, known[name]), 1, 100_000) for name in LOAD
    }

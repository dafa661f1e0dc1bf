"""The variable qwenhost_vllm.model.source: where a model comes from that is not on the host yet."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from qwenhost.expectations.reader import Reader

KINDS: Mapping[str, str] = {
    "url": "the folder of a mirror, with the files and their SHA256SUMS",
    "hub": "a repository of the Hugging Face hub, with a pinned revision",
    "controller": "a folder of this machine, from which it is copied",
}

REVISION = re.compile(r"[0-9a-f]{40}")
REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
UNIT_NAME = re.compile(r"[\w.:-]+")


def read_source(reader: Reader, key: str, value: Any, path: str) -> Mapping[str, str]:
    """Return the kind of source and what names it; empty where the model is on the host already."""
    if value is None:
        return {}
    given = {str(name): str(item) for name, item in reader.mapping(key, value).items()}
    reader.only(key, given, {*KINDS, "revision"})
    kinds = [kind for kind in KINDS if kind in given]
    if len(kinds) != 1:
        reader.refuse(
            key, f"names {len(kinds)} sources", "; ".join(f"{kind}: {what}" for kind, what in KINDS.items())
        )
    if not UNIT_NAME.fullmatch(path.rstrip("/").rpartition("/")[2]) or path.rstrip("/").count("/") < 2:
        reader.refuse(
            key, f"needs another path than {path!r}", "a folder below a folder: letters, digits, . _ : -"
        )
    if ("revision" in given) != ("hub" in given):
        reader.refuse(f"{key}.revision", "goes with hub", "the commit, 40 hexadecimal digits")
    _CHECKS[kinds[0]](reader, key, given)
    return given


def _check_url(reader: Reader, key: str, given: Mapping[str, str]) -> None:
    if not re.fullmatch(r"https?://[^\s/@]+/\S*", given["url"]):
        reader.refuse(f"{key}.url", f"{given['url']!r} is no http(s) URL of a folder", "without a password in it")


def _check_hub(reader: Reader, key: str, given: Mapping[str, str]) -> None:
    if not REPOSITORY.fullmatch(given["hub"]):
        reader.refuse(f"{key}.hub", f"{given['hub']!r} is no repository", "such as Qwen/Qwen3.5-27B")
    if not REVISION.fullmatch(given["revision"]):
        reader.refuse(
            f"{key}.revision", f"{given['revision']!r} is no commit", "a branch moves: 40 hexadecimal digits"
        )


def _check_controller(reader: Reader, key: str, given: Mapping[str, str]) -> None:
    if not given["controller"].startswith("/"):
        reader.refuse(f"{key}.controller", f"{given['controller']!r} is no absolute path of this machine")


_CHECKS = {"url": _check_url, "hub": _check_hub, "controller": _check_controller}

"""The API key that an inventory names by its file: a digest of it goes where the variables are judged."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qwenhost.expectations.drivers import KEY as DRIVER
from qwenhost.expectations.serving import KEY
from qwenhost.probe.files import DIGITS
from qwenhost.records.errors import QwenhostError

VAULT = "$ANSIBLE_VAULT;"


def with_key_digest(raw: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return variables with the digest of the key beside the name of its file, which counts from `folder`.

    A file in a vault is not opened here, and so not compared. Raises QwenhostError for one that cannot be read,
    and for the missing key of the driver's packages.
    """
    _refuse_without_driver_key(raw.get(DRIVER), folder)
    value = raw.get(KEY)
    name = value.get("api_key_file") if isinstance(value, Mapping) else None
    if not isinstance(value, Mapping) or not isinstance(name, str) or not name:
        return dict(raw)
    path = folder / name
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no text"
        raise QwenhostError(
            f"{path}: {reason}", hint=f"{KEY}.api_key_file counts from the inventory's folder"
        ) from error
    digest = "" if text.startswith(VAULT) else digest_of(text)
    return {**raw, KEY: {**value, "api_key_file": {"file": name, "digest": digest}}}


def _refuse_without_driver_key(value: Any, folder: Path) -> None:
    source = value.get("source") if isinstance(value, Mapping) else None
    name = source.get("key") if isinstance(source, Mapping) else None
    if isinstance(name, str) and not (folder / name).is_file():
        raise QwenhostError(
            f"{folder / name}: no such file", hint=f"{DRIVER}.source.key counts from the inventory's folder"
        )


def digest_of(key: str) -> str:
    """Return the digest of the file that the role writes: the key and a line end."""
    return hashlib.sha256(f"{key.rstrip()}\n".encode()).hexdigest()[:DIGITS]

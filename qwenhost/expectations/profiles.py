"""Desired host settings for a purpose; each line carries its reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from qwenhost.expectations.tables import line_of, names, refuse_unknown, table
from qwenhost.records.desired import Setting
from qwenhost.records.errors import BadData

LINE = {"value", "why", "source", "raise_only", "bare_metal"}


@dataclass(frozen=True)
class Profile:
    """One file of data/profiles/."""

    name: str
    sysctl: tuple[Setting, ...]
    limits: tuple[Setting, ...]
    transparent_hugepages: Setting | None
    kernel_args: tuple[Setting, ...] = ()
    governor: Setting | None = None


def profile_names() -> tuple[str, ...]:
    """Return the profiles that there are."""
    return names("profiles")


def profile(name: str) -> Profile:
    """Read one profile."""
    path = f"profiles/{name}.yaml"
    raw = table(path)
    refuse_unknown(path, raw, {"schema", "sysctl", "limits", "transparent_hugepages", "kernel_args", "governor"})
    return Profile(
        name=name,
        sysctl=_settings(path, "sysctl", raw),
        limits=_settings(path, "limits", raw),
        transparent_hugepages=_single(path, "transparent_hugepages", raw),
        kernel_args=_settings(path, "kernel_args", raw),
        governor=_single(path, "governor", raw),
    )


def _settings(path: str, section: str, raw: Mapping[str, Any]) -> tuple[Setting, ...]:
    return tuple(_setting(path, f"{section}.", key, line) for key, line in raw.get(section, {}).items())


def _single(path: str, key: str, raw: Mapping[str, Any]) -> Setting | None:
    return _setting(path, "", key, raw[key]) if key in raw else None


def _setting(path: str, section: str, key: str, line: Mapping[str, Any]) -> Setting:
    refuse_unknown(path, line, LINE)
    if "source" not in line or "why" not in line or "value" not in line:
        raise BadData(f"data/{path}:{line_of(path, key)}: {key} needs a value, a why and a source")
    return Setting(
        key=key,
        value=str(line["value"]),
        why=f"{line['why']} Source: {line['source']}.",
        origin=f"{path}: {section}{key}",
        raise_only=bool(line.get("raise_only", False)),
        bare_metal=bool(line.get("bare_metal", False)),
    )

"""The arguments of the role host_tuning; what cannot be set on the host is left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qwenhost.expectations.kernel_arguments import PAGES
from qwenhost.records.desired import Expectations, Setting


def tuning_settings(want: Expectations, live_sysctl: Mapping[str, str]) -> dict[str, Any]:
    """Return every argument; empty values where nothing is declared, or where it is out of reach."""
    args = _reachable(want, "kernel-args", want.kernel_args)
    return {
        "host_tuning_sysctl": {
            setting.key: kept(setting, live_sysctl.get(setting.key))
            for setting in _reachable(want, "sysctl", want.sysctl)
        },
        "host_tuning_hugepages": [
            {"node": pool.node, "size_kib": pool.size_kib, "pages": pool.pages}
            for pool in want.hugepages
            if not want.why_not("hugepages")
        ],
        "host_tuning_hugepages_reserved_at_boot": any(setting.key == PAGES for setting in args),
        "host_tuning_transparent_hugepages": _value(want, "transparent-hugepages", want.transparent_hugepages),
        "host_tuning_governor": _value(want, "governor", want.governor),
        "host_tuning_swap_off": bool(_value(want, "swap", want.swap)),
        "host_tuning_shm_bytes": int(_value(want, "shm", want.shm) or 0),
        "host_tuning_limits": {setting.key: setting.value for setting in want.limits},
        "host_tuning_kernel_args": [setting.value for setting in args],
        "host_tuning_nvidia_options": {
            setting.key: setting.value for setting in _reachable(want, "nvidia-options", want.nvidia_options)
        },
    }


def kept(setting: Setting, live: str | None) -> str:
    """Return the value to set: where only raising is wanted, each larger number that is live stays."""
    wanted, found = setting.value.split(), (live or "").split()
    numeric = len(wanted) == len(found) and all(token.isdigit() for token in (*wanted, *found))
    if not (setting.raise_only and numeric):
        return setting.value
    return " ".join(str(max(int(one), int(other))) for one, other in zip(wanted, found, strict=True))


def _reachable(want: Expectations, kind: str, settings: tuple[Setting, ...]) -> list[Setting]:
    return [setting for setting in settings if not want.why_not(kind, setting.key)]


def _value(want: Expectations, kind: str, setting: Setting | None) -> str:
    return setting.value if setting and not want.why_not(kind) else ""

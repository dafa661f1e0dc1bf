"""Kernel settings below /proc/sys: writes only what differs, and reads back what it wrote."""

from __future__ import annotations

from typing import Any

from qwenhost.hands import kernel
from qwenhost.hands.answer import BadRequest, Refused, outcome, why


def run(request: dict[str, Any], check: bool = False) -> dict[str, Any]:
    """Bring {"values": {key: value}} into force. Raises Refused naming every key that could not be set."""
    wanted = {key: _tokens(str(value)) for key, value in sorted(request["values"].items())}
    paths = {key: _path(key) for key in wanted}
    before = _read_all(paths)
    differing = [key for key in wanted if before[key] != wanted[key]]
    if check:
        return outcome(_lines(before), _lines(wanted))
    failures = [failure for key in differing for failure in _set(key, paths[key], wanted[key])]
    if failures:
        raise Refused("; ".join(failures))
    return outcome(_lines(before), _lines(_read_all(paths)))


def current(keys: list[str]) -> dict[str, str]:
    """Return the values in force of those keys that this kernel has."""
    values = {}
    for key in keys:
        try:
            values[key] = _tokens(kernel.read(_path(key)))
        except OSError:
            continue
    return values


def _tokens(value: str) -> str:
    """The kernel separates the parts of a value by tabs, people by blanks."""
    return " ".join(value.split())


def _path(key: str) -> str:
    """Return the file of a key; as sysctl(8) does, the first separator of a key says what separates it."""
    first = next((letter for letter in key if letter in "./"), ".")
    name = key if first == "/" else key.translate(str.maketrans("./", "/."))
    parts = name.split("/")
    if not all(parts) or ".." in parts or "." in parts:
        raise BadRequest("not a kernel setting: {!r}".format(key))
    return kernel.path_of("proc/sys", *parts)


def _read_all(paths: dict[str, str]) -> dict[str, str]:
    values, failures = {}, []
    for key, path in paths.items():
        try:
            values[key] = _tokens(kernel.read(path))
        except FileNotFoundError:
            failures.append("{}: this kernel has no such setting".format(key))
        except OSError as error:
            failures.append("{}: cannot be read: {}".format(key, why(error)))
    if failures:
        raise Refused("; ".join(failures))
    return values


def _set(key: str, path: str, value: str) -> list[str]:
    """Return why the setting did not take, or nothing."""
    try:
        kernel.write(path, value)
        now = _tokens(kernel.read(path))
    except OSError as error:
        return ["{}: cannot be set to {}: {}".format(key, value, why(error))]
    return [] if now == value else ["{}: set to {}, the kernel made it {}".format(key, value, now)]


def _lines(values: dict[str, str]) -> list[str]:
    return ["{} = {}".format(key, value) for key, value in values.items()]

"""MIG layouts in the file format of NVIDIA's mig-parted (api/spec/v1), judged against the declared board."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import yaml

from qwenhost.expectations.partitions import NOBODY, Partitions, in_order
from qwenhost.expectations.reader import did_you_mean
from qwenhost.records.desired import MigLayout
from qwenhost.records.errors import QwenhostError

VERSION = "v1"
NVIDIA = "10de"
ENTRY_KEYS = ("device-filter", "devices", "mig-enabled", "mig-devices")
PROFILE = re.compile(r"\d+g\.\d+gb([+.-][a-z.]+)?")
SHARED = re.compile(r"\d+c\.\d+g\..+")
"""A compute instance that leaves room for others in its GPU instance."""
DEVICE_ID = re.compile(r"0x(?P<device>[0-9a-f]{4})(?P<vendor>[0-9a-f]{4})")


@dataclass(frozen=True)
class Entry:
    """What one entry of a config wants; no `devices` means all, no `boards` (PCI device ids) means every board."""

    line: int
    layout: MigLayout
    devices: tuple[int, ...] | None
    boards: tuple[str, ...]


def read_partitions(text: str, path: str, config: str, board_ids: Sequence[str]) -> Partitions:
    """Return the layouts of one config for a board; GPUs that no entry names are not managed.

    `board_ids` are the PCI device ids of the declared board, empty where none is declared. Raises QwenhostError
    with file and line for whatever mig-parted would not take, and for entries that contradict each other.
    """
    file = _File(path)
    configs = _configs(file, text)
    if config not in configs:
        file.refuse(1, f"there is no config {config}", did_you_mean(config, configs))
    entries = configs[config]
    if not board_ids and any(entry.boards for entry in entries):
        file.refuse(
            entries[0].line, f"{config} has a device-filter", "declare qwenhost_sku, whose board it is for"
        )
    fitting = [entry for entry in entries if not entry.boards or set(entry.boards) & set(board_ids)]
    if not fitting:
        file.refuse(entries[0].line, f"no entry of {config} is for a board with the id {' or '.join(board_ids)}")
    _refuse_contradictions(file, fitting)
    return _joined(fitting)


def _configs(file: _File, text: str) -> Mapping[str, tuple[Entry, ...]]:
    root = file.fields(file.parsed(text), ("version", "mig-configs"), ("version", "mig-configs"))
    version = file.value(root["version"])
    if version != VERSION:
        file.refuse(root["version"], f"version {version!r} is unknown", f"known: {VERSION}")
    configs = file.fields(root["mig-configs"])
    if not configs:
        file.refuse(root["mig-configs"], "has no config")
    return {name: tuple(_entries(file, name, node)) for name, node in configs.items()}


def _entries(file: _File, name: str, node: yaml.Node) -> Iterator[Entry]:
    if not isinstance(node, yaml.SequenceNode) or not node.value:
        file.refuse(node, f"{name} needs a list of at least one entry")
    for item in node.value:
        fields = file.fields(item, ENTRY_KEYS, ("devices", "mig-enabled"))
        enabled = file.value(fields["mig-enabled"])
        if not isinstance(enabled, bool):
            file.refuse(fields["mig-enabled"], f"mig-enabled: {enabled!r} is neither true nor false")
        profiles = _profiles(file, fields, item, enabled)
        origin = f"{file.path}: {name}"
        yield Entry(
            _line(item),
            MigLayout(NOBODY, enabled, profiles, origin),
            _devices(file, fields),
            _boards(file, fields),
        )


def _profiles(file: _File, fields: Mapping[str, yaml.Node], item: yaml.Node, enabled: bool) -> tuple[str, ...]:
    if "mig-devices" not in fields:
        if enabled:
            file.refuse(item, "mig-devices is missing", "write mig-devices: {} for MIG mode without instances")
        return ()
    names: list[str] = []
    for name, node in file.fields(fields["mig-devices"]).items():
        count = file.value(node)
        if type(count) is not int or count < 0:
            file.refuse(node, f"{name}: {count!r} is no number of instances")
        names += [_profile(file, name, node)] * count
    if names and not enabled:
        file.refuse(fields["mig-devices"], "mig-devices with mig-enabled: false", "an instance needs MIG mode")
    return in_order(names)


def _profile(file: _File, name: str, node: yaml.Node) -> str:
    if SHARED.fullmatch(name):
        file.refuse(
            node, f"{name} shares a GPU instance", "qwenhost makes one compute instance in each GPU instance"
        )
    if not PROFILE.fullmatch(name):
        file.refuse(node, f"{name!r} is no profile", "such as 3g.40gb")
    return name.replace(".me", "+me")


def _devices(file: _File, fields: Mapping[str, yaml.Node]) -> tuple[int, ...] | None:
    value = file.value(fields["devices"])
    if value == "all":
        return None
    if not isinstance(value, list) or not all(type(gpu) is int and gpu >= 0 for gpu in value):
        file.refuse(fields["devices"], f"devices: {value!r}", "write all, or a list of GPU indices such as [0, 1]")
    return tuple(value)


def _boards(file: _File, fields: Mapping[str, yaml.Node]) -> tuple[str, ...]:
    """Return the PCI device ids of a filter such as "0x20B210DE": the device before the vendor."""
    if "device-filter" not in fields:
        return ()
    value = file.value(fields["device-filter"])
    ids = [value] if isinstance(value, str) else value
    found = [DEVICE_ID.fullmatch(str(one).lower()) for one in ids] if isinstance(ids, list) else [None]
    boards = [match["device"] for match in found if match and match["vendor"] == NVIDIA]
    if len(boards) != len(found):
        file.refuse(
            fields["device-filter"], f"device-filter: {value!r}", 'write ids such as "0x20B210DE", in quotes'
        )
    return tuple(boards)


def _refuse_contradictions(file: _File, entries: Sequence[Entry]) -> None:
    """Refuse two entries that want different layouts for one GPU; mig-parted would apply one after the other."""
    for place, entry in enumerate(entries):
        for other in entries[:place]:
            common = entry.devices is None or other.devices is None or set(entry.devices) & set(other.devices)
            if common and entry.layout != other.layout:
                file.refuse(entry.line, f"contradicts line {other.line}: both are for the same GPU of this board")


def _joined(entries: Sequence[Entry]) -> Partitions:
    named = {gpu: entry.layout for entry in entries for gpu in entry.devices or ()}
    others = next((entry.layout for entry in entries if entry.devices is None), None)
    return Partitions(named, others)


@dataclass(frozen=True)
class _File:
    """A YAML file that is read node by node, so that each refusal names its line."""

    path: str

    def refuse(self, where: yaml.Node | int, what: str, hint: str = "") -> NoReturn:
        line = where if isinstance(where, int) else _line(where)
        raise QwenhostError(f"{self.path}:{line}: {what}", hint=hint)

    def parsed(self, text: str) -> yaml.Node | None:
        try:
            return yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            self.refuse(error.problem_mark.line + 1 if error.problem_mark else 1, f"broken YAML: {error.problem}")

    def fields(
        self, node: yaml.Node | None, known: Sequence[str] = (), needed: Sequence[str] = ()
    ) -> dict[str, yaml.Node]:
        """Return a mapping's values by key; refuses others than `known` (if given) and keys that stand twice."""
        if not isinstance(node, yaml.MappingNode):
            self.refuse(
                node if node is not None else 1, f"a mapping is wanted ({', '.join(known) or 'name: value'})"
            )
        found: dict[str, yaml.Node] = {}
        for key, value in node.value:
            name = str(key.value)
            if known and name not in known:
                self.refuse(key, f"unknown key {name!r}", did_you_mean(name, known))
            if name in found:
                self.refuse(key, f"{name} stands twice")
            found[name] = value
        for name in needed:
            if name not in found:
                self.refuse(node, f"{name} is missing")
        return found

    def value(self, node: yaml.Node) -> Any:
        return yaml.constructor.SafeConstructor().construct_document(node)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1

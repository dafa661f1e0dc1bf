"""Read hosts out of an Ansible inventory, as Ansible itself does: YAML, INI, scripts, group_vars and host_vars."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from qwenhost.expectations.declared import PREFIX, read_declared
from qwenhost.records.errors import QwenhostError
from qwenhost.records.host import Host
from qwenhost.workflows.key_files import with_key_digest
from qwenhost.workflows.mig_files import with_mig_file

YAML_ENDINGS = (".yml", ".yaml")

VARIABLE_FOLDERS = ("group_vars", "host_vars")

SSH_ARGUMENTS = ("ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args")

CONNECTION = (
    *("ansible_host", "ansible_ssh_host", "ansible_port", "ansible_ssh_port", "ansible_user", "ansible_ssh_user"),
    *("ansible_private_key_file", "ansible_ssh_private_key_file", "ansible_become", "ansible_python_interpreter"),
    *SSH_ARGUMENTS,
)
"""What is asked of Ansible; passwords, which may be encrypted, are none of it."""

TRUE = ("true", "yes", "on", "1", "y", "t")


@dataclass(frozen=True)
class Entry:
    """One host as Ansible has it: templated variables, and file and line of those whose place is known."""

    name: str
    variables: Mapping[str, Any]
    places: Mapping[str, str] = field(default_factory=dict)


def load_hosts(path: Path, limit: str = "") -> tuple[Host, ...]:
    """Return the hosts of an inventory, checked; nothing is contacted.

    Raises QwenhostError for a missing or broken file, an empty selection or a bad qwenhost_* variable.
    """
    if not path.exists():
        raise QwenhostError(
            f"{path}: no such inventory", hint="qwenhost provision INVENTORY; see inventories/example"
        )
    for file in _yaml_files(path):
        _refuse_broken_yaml(file)
    entries = _entries(path, limit)
    if not entries:
        raise QwenhostError(_nothing(path, limit))
    for entry in entries:
        mine = {name: value for name, value in entry.variables.items() if name.startswith(PREFIX)}
        read_declared(mine, entry.name, str(path), entry.places)
    return tuple(_host(entry, path) for entry in entries)


def _nothing(path: Path, limit: str) -> str:
    return f"{path}: no host matches {limit!r}" if limit else f"{path}: no hosts in this inventory"


def _yaml_files(path: Path) -> Iterator[Path]:
    """Yield the YAML files that Ansible reads for this inventory."""
    folder = path if path.is_dir() else path.parent
    if path.is_file() and path.suffix in YAML_ENDINGS:
        yield path
    within = list(folder.glob("*")) if path.is_dir() else []
    within += [file for name in VARIABLE_FOLDERS for file in folder.joinpath(name).rglob("*")]
    yield from (file for file in sorted(within) if file.is_file() and file.suffix in YAML_ENDINGS)


def _refuse_broken_yaml(path: Path) -> None:
    """Name file and line of a YAML error; Ansible only warns and goes on without these hosts."""
    try:
        tree = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise QwenhostError(f"{path}{line}: broken YAML: {error.problem}") from error
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise QwenhostError(f"{path}: cannot be read: {' '.join(str(error).split())}") from error
    if isinstance(tree, yaml.SequenceNode):
        raise QwenhostError(
            f"{path}:1: a list, where an inventory has groups", hint="see inventories/example/hosts.yml"
        )


def _entries(path: Path, limit: str) -> list[Entry]:
    """Return each host that Ansible would work on."""
    from ansible import constants  # Ansible costs 0.5 s to import
    from ansible.errors import AnsibleError
    from ansible.inventory.manager import InventoryManager
    from ansible.parsing.dataloader import DataLoader
    from ansible.vars.manager import VariableManager

    unread: list[str] = []

    class Inventory(InventoryManager):  # type: ignore[misc]
        """Keeps the sources that no inventory plugin could read; Ansible would warn and leave them out."""

        def parse_source(self, source: str, cache: bool = False) -> bool:
            parsed = bool(super().parse_source(source, cache=cache))
            if not parsed:
                unread.append(str(source))
            return parsed

    constants.HOST_PATTERN_MISMATCH = "error"  # a mistyped --limit would only be warned of
    try:
        loader = DataLoader()
        inventory = Inventory(loader=loader, sources=[str(path.resolve())])
        if unread:
            raise QwenhostError(
                f"{unread[0]}: Ansible cannot read this inventory", hint="ansible-inventory --list -i says why"
            )
        variables = VariableManager(loader=loader, inventory=inventory)
        inventory.subset(limit or None)
        return [
            _entry(loader, str(host.name), variables.get_vars(host=host)) for host in inventory.get_hosts("all")
        ]
    except AnsibleError as error:
        raise QwenhostError(f"{path}: {_said(error)}") from error


def _said(error: Exception) -> str:
    text = " ".join(str(error).split())
    nobody = re.search(r"host pattern, ignoring: (.+)", text)
    return f"no host matches {nobody[1]!r}" if nobody else text


def _entry(loader: Any, name: str, variables: Mapping[str, Any]) -> Entry:
    """Return one host; an expression that cannot be evaluated is refused with its variable's name."""
    from ansible.errors import AnsibleError
    from ansible.template import Templar

    templar = Templar(loader=loader, variables=variables)
    wanted = [key for key in variables if key.startswith(PREFIX) or key in CONNECTION]
    places = {str(key): place for key in wanted if (place := _place(key))}
    values: dict[str, Any] = {}
    for key in wanted:
        try:
            values[str(key)] = _plain(templar.template(variables[key]))
        except AnsibleError as error:
            place = f"{places[key]}: " if key in places else ""
            raise QwenhostError(f"{place}{name}: {key}: {' '.join(str(error).split())}") from error
    folder = Path(str(variables.get("inventory_dir") or "."))
    return Entry(name, with_key_digest(with_mig_file(values, folder), folder), places)


def _place(key: str) -> str:
    """Return "file:line" of a variable, empty where Ansible does not tell."""
    try:
        from ansible._internal._datatag._tags import Origin  # there is no public name for it
    except ImportError:
        return ""
    origin = Origin.get_tag(key)
    if origin is None or not origin.path:
        return ""
    path = Path(origin.path)
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return f"{shown}:{origin.line_num}" if origin.line_num else str(shown)


def _plain(value: Any) -> Any:
    """Return a value in Python's own types, without Ansible's tags."""
    if isinstance(value, Mapping):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return value if kind is bool else kind(value)
    return value


def _host(entry: Entry, path: Path) -> Host:
    variables = entry.variables
    arguments = " ".join(str(variables[name]) for name in SSH_ARGUMENTS if variables.get(name))
    key_file = _first(variables, "ansible_ssh_private_key_file", "ansible_private_key_file")
    return Host(
        name=entry.name,
        address=_first(variables, "ansible_ssh_host", "ansible_host") or entry.name,
        port=_port(entry, path),
        user=_first(variables, "ansible_ssh_user", "ansible_user"),
        key_file=str(Path(key_file).expanduser()) if key_file else "",
        known_hosts_file=_option(entry, arguments, "UserKnownHostsFile"),
        ssh_args=arguments,
        become=str(variables.get("ansible_become", "")).lower() in TRUE,
        python=_first(variables, "ansible_python_interpreter"),
        variables={key: value for key, value in variables.items() if key.startswith(PREFIX)},
        origin=str(path),
    )


def _first(variables: Mapping[str, Any], *names: str) -> str:
    """Return the first of these variables that is given, as text."""
    return next((str(variables[name]) for name in names if variables.get(name) not in (None, "")), "")


def _port(entry: Entry, path: Path) -> int | None:
    port = _first(entry.variables, "ansible_ssh_port", "ansible_port")
    if port and not (re.fullmatch(r"[0-9]{1,5}", port) and 0 < int(port) < 65536):
        where = entry.places.get("ansible_port", str(path))
        raise QwenhostError(f"{where}: {entry.name}: ansible_port: {port!r} is no port")
    return int(port) if port else None


def _option(entry: Entry, arguments: str, name: str) -> str:
    """Return the value of an ssh option given as -o Name=value or -oName=value."""
    try:
        words = shlex.split(arguments)
    except ValueError as error:
        raise QwenhostError(f"{entry.name}: ssh arguments {arguments!r}: {error}") from error
    for word in words:
        key, _, value = word.removeprefix("-o").strip().partition("=")
        if key.strip().lower() == name.lower():
            return value.strip()
    return ""

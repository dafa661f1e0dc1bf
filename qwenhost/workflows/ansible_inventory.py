"""An inventory as Ansible has it: YAML, INI, scripts, group_vars, host_vars, with templates and vaults opened."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qwenhost.expectations.declared import PREFIX
from qwenhost.records.errors import QwenhostError
from qwenhost.workflows.inventory_files import refuse_lost_groups
from qwenhost.workflows.passwords import vault_secrets

SSH_ARGUMENTS = ("ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args")

PASSWORD = ("ansible_ssh_password", "ansible_ssh_pass", "ansible_password")
BECOME_PASSWORD = ("ansible_become_password", "ansible_become_pass", "ansible_sudo_pass")

CONNECTION = (
    *("ansible_host", "ansible_ssh_host", "ansible_port", "ansible_ssh_port", "ansible_user", "ansible_ssh_user"),
    *("ansible_private_key_file", "ansible_ssh_private_key_file", "ansible_python_interpreter"),
    *("ansible_connection", "ansible_become", "ansible_become_method", "ansible_become_user"),
    *(*SSH_ARGUMENTS, *PASSWORD, *BECOME_PASSWORD),
)
"""What is asked of Ansible beside our own variables."""

READERS = {".yml": "yaml", ".yaml": "yaml", ".json": "yaml", ".toml": "toml"}
"""Which of Ansible's plugins tells best why a file cannot be read, by its ending; "ini" for others."""


@dataclass(frozen=True)
class Entry:
    """One host as Ansible has it: templated variables, and file and line of those whose place is known."""

    name: str
    folder: Path
    variables: Mapping[str, Any]
    places: Mapping[str, str] = field(default_factory=dict)


def read_entries(path: Path, limit: str) -> list[Entry]:
    """Return each host that Ansible would work on. Raises QwenhostError with what Ansible says."""
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
        loader.set_vault_secrets(vault_secrets(loader))
        with _failures() as failures:
            inventory = Inventory(loader=loader, sources=[str(path.resolve())])
        if unread:
            told = f"Ansible cannot read this inventory: {_reason(Path(unread[0]), failures)}"
            raise QwenhostError(f"{unread[0]}: {told}", hint="ansible-inventory --list -i says more")
        refuse_lost_groups(path, frozenset(map(str, inventory.groups)))
        variables = VariableManager(loader=loader, inventory=inventory)
        inventory.subset(limit or None)
        hosts = inventory.get_hosts("all")
        return [_entry(loader, str(host.name), variables.get_vars(host=host)) for host in hosts]
    except AnsibleError as error:
        raise QwenhostError(f"{path}: {_said(error)}", hint=_vault_hint(str(error))) from error


@contextmanager
def _failures() -> Iterator[dict[str, str]]:
    """Collect why each plugin could not read a source: plugin -> reason. Warnings beside a failure are dropped."""
    from ansible.utils.display import Display

    display, found, warned = Display(), {}, []
    own = {name: getattr(display, name) for name in ("error_as_warning", "warning")}

    def note(msg: str | None, exception: BaseException, **_: Any) -> None:
        plugin = re.search(r"'(\w+)' plugin", msg or "")
        found[plugin[1] if plugin else ""] = _said(exception)

    display.error_as_warning = note
    display.warning = lambda msg, *given, **named: warned.append((msg, given, named))
    try:
        yield found
    finally:
        for name in own:
            delattr(display, name)
    for msg, given, named in warned if not found else ():
        display.warning(msg, *given, **named)


def _reason(source: Path, failures: Mapping[str, str]) -> str:
    """Return what the plugin says for which the file is meant; a program is told of by the one that runs it."""
    wanted = ("script", READERS.get(source.suffix, "ini"), *failures)
    return next((failures[name] for name in wanted if name in failures), "no plugin knows its form")


def _said(error: BaseException) -> str:
    more = str(getattr(error, "_help_text", None) or "").strip().splitlines()  # what a program wrote to stderr
    text = " ".join([*str(error).split(), *more[-1:]])
    nobody = re.search(r"host pattern, ignoring: (.+)", text)
    return f"no host matches {nobody[1]!r}" if nobody else text


def _vault_hint(text: str) -> str:
    if "vault" not in text.lower():
        return ""
    return "add --ask-vault-pass or --vault-password-file FILE, or set ANSIBLE_VAULT_PASSWORD_FILE"


def _entry(loader: Any, name: str, variables: Mapping[str, Any]) -> Entry:
    """Return one host; an expression that cannot be evaluated is refused with its variable's name."""
    from ansible.errors import AnsibleError
    from ansible.template import Templar

    templar = Templar(loader=loader, variables=variables)
    wanted = [key for key in variables if _ours(key) or key in CONNECTION]
    places = {str(key): place for key in wanted if (place := _place(key))}
    values: dict[str, Any] = {}
    for key in wanted:
        try:
            values[str(key)] = _plain(templar.template(variables[key]))
        except AnsibleError as error:
            place = f"{places[key]}: " if key in places else ""
            said = " ".join(str(error).split())
            raise QwenhostError(f"{place}{name}: {key}: {said}", hint=_vault_hint(said)) from error
    return Entry(name, Path(str(variables.get("inventory_dir") or ".")), values, places)


def _ours(key: str) -> bool:
    """Tell whether a name is meant for us, also where it is spelled in another way."""
    return key.lower().replace("-", "_").startswith(PREFIX)


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

"""Read hosts out of an Ansible inventory, as Ansible itself does: YAML, INI, scripts, group_vars and host_vars."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from qwenhost.expectations.declared import PREFIX, read_declared
from qwenhost.records.errors import QwenhostError
from qwenhost.records.host import Host

YAML_ENDINGS = (".yml", ".yaml")


def load_hosts(path: Path, limit: str = "") -> tuple[Host, ...]:
    """Return the hosts of an inventory, checked; nothing is contacted.

    Raises QwenhostError for a missing or broken file, an empty selection or a bad qwenhost_* variable.
    """
    if not path.exists():
        raise QwenhostError(
            f"{path}: no such inventory", hint="qwenhost provision INVENTORY; see inventories/example"
        )
    _refuse_broken_yaml(path)
    hosts = tuple(_host(name, variables, path) for name, variables in _ansible_hosts(path, limit))
    if not hosts:
        raise QwenhostError(*_nothing(path, limit))
    for host in hosts:
        read_declared(host.variables, host.name, str(path))
    return hosts


def _nothing(path: Path, limit: str) -> tuple[str]:
    return (f"{path}: no host matches {limit!r}" if limit else f"{path}: no hosts in this inventory",)


def _refuse_broken_yaml(path: Path) -> None:
    """Name file and line of a YAML error; Ansible would only warn and go on with no hosts."""
    if path.suffix not in YAML_ENDINGS:
        return
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise QwenhostError(f"{path}{line}: broken YAML: {error.problem}") from error
    except (UnicodeDecodeError, OSError) as error:
        raise QwenhostError(f"{path}: cannot be read: {error}") from error
    if not isinstance(tree, Mapping):
        raise QwenhostError(f"{path}: no groups in this inventory", hint="see inventories/example/hosts.yml")


def _ansible_hosts(path: Path, limit: str) -> list[tuple[str, dict[str, Any]]]:
    """Return name and templated variables of each host that Ansible would work on."""
    from ansible.errors import AnsibleError  # Ansible costs 0.5 s to import
    from ansible.inventory.manager import InventoryManager
    from ansible.parsing.dataloader import DataLoader
    from ansible.vars.manager import VariableManager

    try:
        loader = DataLoader()
        inventory = InventoryManager(loader=loader, sources=[str(path.resolve())])
        variables = VariableManager(loader=loader, inventory=inventory)
        if limit:
            inventory.subset(limit)
        hosts = inventory.get_hosts("all")
        return [(str(host.name), _templated(loader, variables.get_vars(host=host))) for host in hosts]
    except AnsibleError as error:
        raise QwenhostError(f"{path}: {' '.join(str(error).split())}") from error


def _templated(loader: Any, variables: dict[str, Any]) -> dict[str, Any]:
    from ansible.template import Templar

    templar = Templar(loader=loader, variables=variables)
    wanted = {name for name in variables if name.startswith((PREFIX, "ansible_"))}
    return {name: templar.template(variables[name]) for name in wanted if name not in BUILT_IN}


BUILT_IN = ("ansible_playbook_python", "ansible_version", "ansible_facts")


def _host(name: str, variables: Mapping[str, Any], path: Path) -> Host:
    common = str(variables.get("ansible_ssh_common_args", ""))
    extra = str(variables.get("ansible_ssh_extra_args", ""))
    arguments = f"{common} {extra}".strip()
    port = variables.get("ansible_port", variables.get("ansible_ssh_port"))
    key_file = variables.get("ansible_ssh_private_key_file", variables.get("ansible_private_key_file", ""))
    return Host(
        name=name,
        address=str(variables.get("ansible_host", name)),
        port=int(port) if port else None,
        user=str(variables.get("ansible_user", variables.get("ansible_ssh_user", ""))),
        key_file=str(Path(str(key_file)).expanduser()) if key_file else "",
        known_hosts_file=_option(arguments, "UserKnownHostsFile"),
        ssh_args=arguments,
        become=bool(variables.get("ansible_become", False)),
        python=str(variables.get("ansible_python_interpreter", "")),
        variables={key: value for key, value in variables.items() if key.startswith(PREFIX)},
        origin=str(path),
    )


def _option(arguments: str, name: str) -> str:
    """Return the value of an ssh option given as -o Name=value or -oName=value."""
    for word in shlex.split(arguments):
        key, _, value = word.removeprefix("-o").strip().partition("=")
        if key.lower() == name.lower():
            return value
    return ""

"""The hosts of an Ansible inventory, checked before any is contacted."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from qwenhost.expectations.declared import PREFIX, READERS, read_declared
from qwenhost.expectations.reader import did_you_mean
from qwenhost.records.errors import QwenhostError
from qwenhost.records.host import LOCAL, Host
from qwenhost.transports.ssh_options import read_options
from qwenhost.workflows import passwords
from qwenhost.workflows.ansible_inventory import BECOME_PASSWORD, PASSWORD, SSH_ARGUMENTS, Entry, read_entries
from qwenhost.workflows.inventory_files import refuse_broken_files
from qwenhost.workflows.key_files import with_key_digest
from qwenhost.workflows.mig_files import with_mig_file

TRUE = ("true", "yes", "on", "1", "y", "t")
FALSE = ("false", "no", "off", "0", "n", "f")

NAME = re.compile(r"[^\s()\[\]{}'\"`,;|&<>*?!$\\]+")
"""Names of hosts: what a shell, a pattern of Ansible, or the source text of a program has in it is none."""

OVER_SSH = ("", "smart", "ssh", "paramiko", "paramiko_ssh")

FOR_A_RUN = {
    "qwenhost_serial": "qwenhost provision --serial N",
    "qwenhost_max_fail": "qwenhost provision --max-fail N",
    "qwenhost_roles": "ansible-playbook -e",
}
"""Variables that steer a run: in an inventory, nothing or only a part of a run would read them."""

MAYBE = ("qwenhost_force", "qwenhost_reboot", "qwenhost_smoke_full")


def load_hosts(path: Path, limit: str = "") -> tuple[Host, ...]:
    """Return the hosts of an inventory, checked; nothing is contacted.

    Raises QwenhostError for a missing or broken file, an empty selection or a bad qwenhost_* variable.
    """
    if not path.exists():
        raise QwenhostError(f"{path}: no such inventory", hint="qwenhost init FOLDER writes one to start from")
    refuse_broken_files(path)
    entries = read_entries(path, limit)
    if not entries:
        raise QwenhostError(_nothing(path, limit))
    return tuple(_host(entry, path) for entry in entries)


def refuse_one_host_twice(hosts: Sequence[Host]) -> None:
    """Refuse two names for one machine, before both are changed at the same time."""
    names: dict[str, str] = {}
    for host in hosts:
        machine = repr(replace(host, name="", variables={}, address=host.address or host.name))
        if machine in names:
            told = f"{host.origin}: {names[machine]} and {host.name} are one machine, at {host.address}"
            raise QwenhostError(told, hint="keep one of them, or choose one with --limit")
        names[machine] = host.name


def _nothing(path: Path, limit: str) -> str:
    return f"{path}: no host matches {limit!r}" if limit else f"{path}: no hosts in this inventory"


def _host(entry: Entry, path: Path) -> Host:
    """Return one host. Raises QwenhostError for a value that no run could use."""
    if not NAME.fullmatch(entry.name):
        hint = "a script has to be executable and to print JSON; other files are YAML or INI"
        raise QwenhostError(f"{path}: {entry.name!r} is no name of a host", hint=hint)
    _check_switches(entry, path)
    given = with_key_digest(with_mig_file(entry.variables, entry.folder), entry.folder)
    declared = {key: value for key, value in given.items() if key.startswith(PREFIX)}
    for name in given:
        if not name.startswith((PREFIX, "ansible_")):
            _refuse(entry, path, name, "unknown variable", did_you_mean(name, READERS, PREFIX))
    read_declared(declared, entry.name, str(path), entry.places)
    return _connected(entry, path, declared)


def _connected(entry: Entry, path: Path, declared: Mapping[str, Any]) -> Host:
    variables = entry.variables
    arguments = " ".join(str(variables[name]) for name in SSH_ARGUMENTS if variables.get(name))
    key_file = _first(variables, "ansible_ssh_private_key_file", "ansible_private_key_file")
    become = str(variables.get("ansible_become", "")).lower() in TRUE
    host = Host(
        name=entry.name,
        address=_first(variables, "ansible_ssh_host", "ansible_host") or entry.name,
        port=_port(entry, path),
        user=_first(variables, "ansible_ssh_user", "ansible_user"),
        key_file=str(Path(key_file).expanduser()) if key_file else "",
        known_hosts_file=_option(entry, path, arguments, "UserKnownHostsFile"),
        ssh_args=arguments,
        become=become,
        python=_python(variables),
        connection=_connection(entry, path),
        password=_first(variables, *PASSWORD) or passwords.connection_password(),
        become_password=(_first(variables, *BECOME_PASSWORD) or passwords.become_password()) if become else "",
        variables=declared,
        origin=str(path),
    )
    if become:
        _check_become(entry, path)
    try:
        read_options(host)
    except ValueError as error:
        _refuse(entry, path, SSH_ARGUMENTS[1], f"{arguments!r}: {error}")
    return host


def _check_switches(entry: Entry, path: Path) -> None:
    for name, instead in FOR_A_RUN.items():
        if name in entry.variables:
            _refuse(entry, path, name, "steers a run and declares nothing of a host", f"give it to {instead}")
    for name in MAYBE:
        if str(entry.variables.get(name, False)).lower() not in (*TRUE, *FALSE):
            _refuse(entry, path, name, f"{entry.variables[name]!r} is neither true nor false")


def _check_become(entry: Entry, path: Path) -> None:
    """Refuse what an examination could not do as Ansible would."""
    method, user = (_first(entry.variables, f"ansible_become_{name}") for name in ("method", "user"))
    if method not in ("", "sudo"):
        _refuse(entry, path, "ansible_become_method", f"{method!r} is not sudo", "allow sudo, or connect as root")
    if user not in ("", "root"):
        _refuse(entry, path, "ansible_become_user", f"{user!r} is not root, who alone may set a host up")


def _connection(entry: Entry, path: Path) -> str:
    wanted = _first(entry.variables, "ansible_connection").removeprefix("ansible.builtin.")
    if wanted not in (*OVER_SSH, LOCAL):
        hint = "ansible-playbook $(qwenhost path playbooks)/provision.yml takes any connection"
        _refuse(entry, path, "ansible_connection", f"{wanted!r} is neither ssh nor local", hint)
    return LOCAL if wanted == LOCAL else ""


def _python(variables: Mapping[str, Any]) -> str:
    """Return the interpreter; the ways in which Ansible may look for one are no paths."""
    chosen = _first(variables, "ansible_python_interpreter")
    return "" if chosen.startswith("auto") else chosen


def _refuse(entry: Entry, path: Path, key: str, told: str, hint: str = "") -> NoReturn:
    raise QwenhostError(f"{entry.places.get(key, path)}: {entry.name}: {key}: {told}", hint=hint)


def _first(variables: Mapping[str, Any], *names: str) -> str:
    """Return the first of these variables that is given, as text."""
    return next((str(variables[name]) for name in names if variables.get(name) not in (None, "")), "")


def _port(entry: Entry, path: Path) -> int | None:
    port = _first(entry.variables, "ansible_ssh_port", "ansible_port")
    if port and not (re.fullmatch(r"[0-9]{1,5}", port) and 0 < int(port) < 65536):
        key = "ansible_ssh_port" if entry.variables.get("ansible_ssh_port") else "ansible_port"
        _refuse(entry, path, key, f"{port!r} is no port")
    return int(port) if port else None


def _option(entry: Entry, path: Path, arguments: str, name: str) -> str:
    """Return the value of an ssh option given as -o Name=value or -oName=value."""
    try:
        words = shlex.split(arguments)
    except ValueError as error:
        key = next((key for key in SSH_ARGUMENTS if key in entry.variables), SSH_ARGUMENTS[1])
        _refuse(entry, path, key, f"{arguments!r}: {error}")
    for word in words:
        key, _, value = word.removeprefix("-o").strip().partition("=")
        if key.strip().lower() == name.lower():
            return value.strip()
    return ""

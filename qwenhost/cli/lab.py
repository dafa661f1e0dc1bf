"""`qwenhost lab`: simulated A100 hosts on this machine, to try and test with."""

from __future__ import annotations

import importlib
import json
import shlex
import subprocess
import sys
from dataclasses import asdict
from typing import Any

import click

from qwenhost.lab import lifecycle
from qwenhost.lab.image import image_folder
from qwenhost.lab.keys import ssh_command
from qwenhost.lab.layout import Lab, LabHost
from qwenhost.lab.lifecycle import HostStatus, Simulated
from qwenhost.records.errors import FAILED

lab_name = click.option("--name", default="qwenhost", show_default=True, help="The lab's name.")


@click.group(name="lab")
def group() -> None:
    """Simulated A100 hosts: real systemd, SSH and network; simulated GPUs.

    The hosts are containers of this machine (root needed). Their GPUs, and the kernel settings
    that a container does not own, are stand-ins that answer as recorded hardware does.
    """


@group.command()
@click.option("--hosts", "count", default=2, show_default=True, type=click.IntRange(1, 200))
@click.option("--sku", default="a100-sxm4-80gb", show_default=True, help="What they simulate.")
@click.option("--gpus", default=8, show_default=True, type=click.IntRange(1, 16), help="GPUs per host.")
@click.option("--with-model", is_flag=True, help="First prepare what serving needs.")
@lab_name
def up(count: int, sku: str, gpus: int, with_model: bool, name: str) -> None:
    """Start the hosts and wait until they have booted; hosts that run are left alone."""
    if with_model:
        _built("wheelhouse")
        _built("tiny_model")
    if not image_folder().is_dir():
        click.echo("building the hosts' file system: about a minute, once", err=True)
    install = _module("simulator").install
    _print(lifecycle.up(Lab(name), count, Simulated(sku, gpus), install))


@group.command()
@lab_name
def down(name: str) -> None:
    """End the hosts and remove all that they leave; also clears a lab that died."""
    lifecycle.down(Lab(name))


@group.command()
@lab_name
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def status(name: str, as_json: bool) -> None:
    """Say of each host where it is, whether SSH answers, and what is broken on purpose."""
    lab = Lab(name)
    found = lifecycle.status(lab)
    if as_json:
        hosts = [asdict(host) | {"faults": active_faults(lab.named(host.name))} for host in found]
        click.echo(json.dumps({"schema": 1, "lab": name, "hosts": hosts}, indent=2))
    elif found:
        _print(found, {host.name: active_faults(lab.named(host.name)) for host in found})
    else:
        click.echo(f"lab {name} is down")
    if not all(host.running and host.ssh for host in found):
        sys.exit(FAILED)


@group.command()
@click.argument("host", required=False)
@click.argument("kind", required=False)
@click.option("--clear", is_flag=True, help="Mend everything on the host.")
@click.option("--list", "listed", is_flag=True, help="List the kinds of fault.")
@lab_name
def fault(host: str | None, kind: str | None, clear: bool, listed: bool, name: str) -> None:
    """Break a simulated host on purpose, or mend it."""
    faults = _module("simulator.faults")
    if listed:
        width = max(map(len, faults.KINDS))
        for known, meaning in sorted(faults.KINDS.items()):
            click.echo(f"{known:{width}}  {meaning}")
        return
    if not host or (kind is None) == (not clear):
        raise click.UsageError("give HOST and KIND, or HOST --clear, or --list")
    if kind is not None and kind not in faults.KINDS:
        raise click.BadParameter(f"{kind!r} is not one of `qwenhost lab fault --list`", param_hint="KIND")
    target = lifecycle.running_host(Lab(name), host)
    if kind is None:
        faults.clear(target.root)
    else:
        faults.inject(target.root, kind)
    click.echo(f"{host}: {', '.join(faults.active(target.root)) or 'no fault'}")


@group.command(name="exec", context_settings={"ignore_unknown_options": True})
@click.option("--user", default="root", show_default=True, help="Whom to log in as.")
@lab_name
@click.argument("host")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def exec_(host: str, command: tuple[str, ...], user: str, name: str) -> None:
    """Run COMMAND on HOST by SSH, or open a shell there; its exit code is passed on.

    One argument is a line for the host's shell; several are a command and its arguments.
    """
    target = lifecycle.running_host(Lab(name), host)
    line = command if len(command) < 2 else (shlex.join(command),)
    sys.exit(subprocess.run([*ssh_command(target, user), *line]).returncode)


@group.command()
def wheelhouse() -> None:
    """Build the folder of wheels that lab hosts install vLLM from, without an index."""
    click.echo(_built("wheelhouse"))


@group.command()
def model() -> None:
    """Make the tiny stand-in model that lab hosts serve."""
    click.echo(_built("tiny_model"))


def _module(name: str) -> Any:
    return importlib.import_module(f"qwenhost.lab.{name}")


def _built(name: str) -> Any:
    return _module(name).build()


def active_faults(host: LabHost) -> list[str]:
    """The faults injected into the host; none where its root is not mounted."""
    active: list[str] = _module("simulator.faults").active(host.root) if host.root.is_mount() else []
    return active


def _print(found: list[HostStatus], faults: dict[str, list[str]] | None = None) -> None:
    for host in found:
        words = [host.name, host.address, "running" if host.running else "dead"]
        words += [f"pid {host.supervisor_pid or '-'}", f"init {host.init_pid or '-'}"]
        words += [f"ssh {'answers' if host.ssh else 'silent'}", host.state or "-"]
        broken = ", ".join((faults or {}).get(host.name, []))
        click.echo("  ".join(words + ([f"faults: {broken}"] if broken else [])))

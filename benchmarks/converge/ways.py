"""The ways: what is written for each before, and the command that brings all hosts to the settings."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from qwenhost.expectations.profiles import profile
from qwenhost.lab.keys import ssh_command
from qwenhost.lab.layout import LabHost

HERE = Path(__file__).parent
PROFILE = "serving"
SCRIPTS = Path(sysconfig.get_path("scripts"))


@dataclass(frozen=True)
class Way:
    """`run` brings all hosts to the settings, and fails when it cannot."""

    name: str
    run: Callable[[], None]


def settings() -> dict[str, Any]:
    """What all ways set."""
    wanted = profile(PROFILE)
    assert wanted.transparent_hugepages
    return {
        "sysctl": {line.key: line.value for line in wanted.sysctl},
        "limits": {line.key: line.value for line in wanted.limits},
        "transparent_hugepages": wanted.transparent_hugepages.value,
    }


def ways(hosts: list[LabHost], folder: Path, pyinfra: str) -> list[Way]:
    """Write what each needs into `folder`."""
    inventory = _inventory(hosts, folder / "hosts.yml")
    (folder / "settings.json").write_text(json.dumps(settings()))
    playbook = (SCRIPTS / "ansible-playbook", "-i", inventory, "-e", f"@{folder}/settings.json", "-f", len(hosts))
    found = [
        Way("script", lambda: on_all(hosts, script())),
        Way("playbook", _command(folder, *playbook, HERE / "baseline.yml")),
        Way("qwenhost", _command(folder, sys.executable, "-m", "qwenhost", "provision", inventory, "--yes")),
    ]
    if pyinfra:
        targets = _pyinfra_inventory(hosts, folder / "targets.py")
        found.append(Way("pyinfra", _command(folder, pyinfra, "-y", targets, HERE / "deploy.py")))
    return found


def on_all(hosts: list[LabHost], text: str) -> None:
    """Run a shell script on all hosts at once."""
    with ThreadPoolExecutor(len(hosts)) as pool:
        list(pool.map(lambda host: _piped(host, text), hosts))


def script() -> str:
    """The settings as a shell script that sets what differs."""
    wanted = settings()
    live = [
        f'[ "$(sysctl -n {key} | tr "\\t" " ")" = {shlex.quote(value)} ] || sysctl -qw {key}={shlex.quote(value)}'
        for key, value in wanted["sysctl"].items()
    ]
    mode = wanted["transparent_hugepages"]
    file = "/sys/kernel/mm/transparent_hugepage/enabled"
    limits = [f"* - {item} {limit}" for item, limit in wanted["limits"].items()]
    kept = {
        "/etc/sysctl.d/90-baseline.conf": [f"{key} = {value}" for key, value in wanted["sysctl"].items()],
        "/etc/security/limits.d/90-baseline.conf": limits,
        "/etc/tmpfiles.d/baseline.conf": [f"w {file} - - - - {mode}"],
    }
    files = [f"cat > {path} <<'END'\n" + "\n".join(lines) + "\nEND" for path, lines in kept.items()]
    return "\n".join(["set -e", *live, f"grep -qw '\\[{mode}\\]' {file} || echo {mode} > {file}", *files])


def _command(folder: Path, *words: object) -> Callable[[], None]:
    environment = {
        "PATH": f"{SCRIPTS}:/usr/bin:/bin:/usr/sbin:/sbin",
        "HOME": str(folder),
        "ANSIBLE_PIPELINING": "True",
        "LC_ALL": "C.UTF-8",
    }

    def run() -> None:
        argv = [str(word) for word in words]
        done = subprocess.run(argv, capture_output=True, text=True, env=environment, cwd=folder)
        if done.returncode:
            raise SystemExit(f"{argv}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")

    return run


def _piped(host: LabHost, text: str) -> None:
    command = [*ssh_command(host, "root"), "sh -s"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{host.name}: {done.stderr}")


def _inventory(hosts: list[LabHost], path: Path) -> Path:
    lab = hosts[0].lab
    known = f"-o UserKnownHostsFile={lab.known_hosts} -o StrictHostKeyChecking=yes"
    shared: Mapping[str, object] = {
        "ansible_user": "root",
        "ansible_ssh_private_key_file": str(lab.key),
        "ansible_ssh_common_args": known,
        "ansible_python_interpreter": "/usr/bin/python3",
        "qwenhost_profile": PROFILE,
    }
    names = {host.name: {"ansible_host": host.address} for host in hosts}
    path.write_text(yaml.safe_dump({"all": {"vars": dict(shared), "hosts": names}}))
    return path


def _pyinfra_inventory(hosts: list[LabHost], path: Path) -> Path:
    lab = hosts[0].lab
    data = {
        **settings(),
        "ssh_user": "root",
        "ssh_key": str(lab.key),
        "ssh_known_hosts_file": str(lab.known_hosts),
    }
    path.write_text(f"hosts = {[(host.address, data) for host in hosts]!r}\n")
    return path

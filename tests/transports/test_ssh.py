"""SSH against a real sshd: what comes back, and what is said when nothing does."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import paramiko
import pytest

from qwenhost.records.errors import HostUnreachable
from qwenhost.records.host import LOCAL, Host
from qwenhost.records.source import command, file
from qwenhost.transports import fleet, piped, ssh
from qwenhost.transports.ssh_errors import cannot_run
from qwenhost.transports.ssh_options import read_options

from .conftest import ADDRESS, Server

SOURCES = [command("kernel", "uname", "-r"), file("absent", "/no/such/file")]


def test_one_round_trip_brings_the_bundle(server: Server) -> None:
    bundle = ssh.fetch(server.host(), SOURCES)
    assert bundle.host == "lab1"
    assert [capture.status for capture in bundle.captures] == ["ok", "missing"]
    assert bundle.of("kernel")[0].text.strip() == bundle.notes["kernel"]


def test_nothing_is_left_on_the_host(server: Server) -> None:
    before = set(Path("/tmp").iterdir())
    ssh.fetch(server.host(), SOURCES)
    assert not {path for path in set(Path("/tmp").iterdir()) - before if "qwen" in path.name}


def test_a_greeting_before_the_answer_does_not_matter(server: Server) -> None:
    bundle = ssh.fetch(server.host(key_file=str(server.folder / "noisy_key")), SOURCES)
    assert bundle.of("kernel")[0].status == "ok"


def test_openssh_options_of_the_inventory_count(server: Server) -> None:
    arguments = f"-o UserKnownHostsFile={server.folder}/known_hosts -p {server.port} -C -o ConnectTimeout=5"
    host = server.host(known_hosts_file="", port=None, ssh_args=arguments)
    assert ssh.fetch(host, SOURCES).of("kernel")


def test_through_a_jump_host(server: Server) -> None:
    jump = f"{server.host().user}@{ADDRESS}:{server.port}"
    assert ssh.fetch(server.host(ssh_args=f"-o ProxyJump={jump}"), SOURCES).of("kernel")


def test_through_a_proxy_command(server: Server) -> None:
    relay = f"{sys.executable} {Path(__file__).with_name('relay.py')} %h %p"
    assert ssh.fetch(server.host(ssh_args=f"-o ProxyCommand='{relay}'"), SOURCES).of("kernel")


def test_nothing_runs_on_after_a_proxy_command_that_ends_at_once(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "CONNECT_SECONDS", 1)
    host = server.host(ssh_args=f"-o ProxyCommand='{sys.executable} -c pass'")
    with pytest.raises(HostUnreachable, match="lab1: "):
        ssh.fetch(host, SOURCES)
    assert not [thread for thread in threading.enumerate() if isinstance(thread, paramiko.Transport)]


@pytest.mark.parametrize(
    ("changes", "message", "hint"),
    [
        ({"known_hosts_file": "empty_hosts"}, "is not known", "fingerprint"),
        ({"known_hosts_file": "changed_hosts"}, "has changed", "in between"),
        ({"known_hosts_file": "absent_hosts"}, "file not found", "known_hosts"),
        ({"key_file": "other_key"}, "does not let user", "private key"),
        ({"key_file": "absent_key"}, "file not found", "key"),
        ({"port": 9}, "refuses the connection", "sshd"),
        ({"address": "no-such-host.invalid"}, "no address for no-such-host.invalid", "DNS"),
        ({"python": "/no/python"}, "/no/python is not there", "ansible_python_interpreter"),
        ({"python": "false"}, "the probe failed: exit code 1", ""),
        ({"ssh_args": "-J 127.0.0.1:9"}, "refuses the connection", "sshd"),
    ],
)
def test_what_fails_is_one_line_with_a_hint(
    server: Server, changes: dict[str, object], message: str, hint: str
) -> None:
    for name in ("known_hosts_file", "key_file"):
        if name in changes:
            changes = {**changes, name: str(server.folder / str(changes[name]))}
    with pytest.raises(HostUnreachable) as caught:
        ssh.fetch(server.host(**changes), SOURCES)
    assert str(caught.value).startswith("lab1: ")
    assert "\n" not in str(caught.value)
    assert message in str(caught.value)
    assert hint in caught.value.hint
    assert caught.value.exit_code == 3


def test_unknown_keys_are_accepted_only_where_the_inventory_says_so(server: Server) -> None:
    lenient = server.host(
        known_hosts_file=str(server.folder / "empty_hosts"),
        ssh_args="-o StrictHostKeyChecking=accept-new",
    )
    assert ssh.fetch(lenient, SOURCES).of("kernel")
    assert (server.folder / "empty_hosts").read_text() == ""
    with pytest.raises(HostUnreachable, match="has changed"):
        changed = str(server.folder / "changed_hosts")
        ssh.fetch(server.host(known_hosts_file=changed, ssh_args=lenient.ssh_args), SOURCES)


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that accepts connections and never says a word."""
    with socket.socket() as silent:
        silent.bind((ADDRESS, 0))
        silent.listen()
        yield silent.getsockname()[1]


def test_a_silent_host_is_given_up(server: Server, silent_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh, "CONNECT_SECONDS", 0.5)
    started = time.monotonic()
    with pytest.raises(HostUnreachable, match="lab1: no SSH server answers"):
        ssh.fetch(server.host(port=silent_port), SOURCES)
    assert time.monotonic() - started < 5


def test_a_command_that_never_ends_is_given_up(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh, "ANSWER_SECONDS", 0.5)
    monkeypatch.setattr(piped, "BOOTSTRAP", "import time;time.sleep(3)")
    with pytest.raises(HostUnreachable, match=r"no answer within 0\.5 s"):
        ssh.fetch(server.host(), SOURCES)


@pytest.mark.parametrize(
    ("code", "messages", "told"),
    [
        (1, b"sudo: a password is required\n", "sudo -n does not work for root"),
        (1, b"sudo: python3: command not found\n", "python3 is not there"),
        (127, b"bash: line 1: sudo: command not found\n", "sudo is not there"),
        (1, b"ops is not in the sudoers file.\n", "may not use sudo"),
        (1, b"sudo: sorry, you must have a tty to run sudo\n", "sudo does not work for root: sudo: sorry"),
        (126, b"sh: 1: python3: Permission denied\n", "python3 cannot be run"),
        (-1, b"", "was cut before the answer came"),
        (1, b"python too old: 3.6.8\n", "python too old: 3.6.8"),
        (1, b"Traceback ...\nMemoryError\n", "the probe failed: MemoryError"),
        (255, b"", "exit code 255, no message"),
    ],
)
def test_what_a_failed_command_says(server: Server, code: int, messages: bytes, told: str) -> None:
    host = server.host(become=True, user="root")
    assert told in str(cannot_run(host, code, messages))


def test_become_goes_through_sudo_without_asking(server: Server) -> None:
    assert ssh.remote_command(server.host(become=True)).startswith("sudo -n -- python3 -c ")


def test_one_host_does_not_end_the_others(server: Server) -> None:
    hosts = [server.host(), server.host(name="lab2", port=9), server.host(name="lab3")]
    answers = list(fleet.fetch_all(hosts, lambda host: ssh.fetch(host, SOURCES)))
    assert [answer.host.name for answer in answers] == ["lab1", "lab2", "lab3"]
    assert [answer.bundle is not None for answer in answers] == [True, False, True]
    assert "refuses" in str(answers[1].error)


def test_a_host_that_is_this_one_is_reached_without_ssh() -> None:
    here = Host("here", connection=LOCAL, address="192.0.2.1", port=9)
    assert ssh.fetch(here, SOURCES).of("kernel")[0].status == "ok"
    with pytest.raises(HostUnreachable, match="here: /no/python is not there"):
        ssh.fetch(replace(here, python="/no/python"), SOURCES)


def test_an_openssh_configuration_file_counts(server: Server, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(f"Host far\n  HostName {ADDRESS}\n  Port {server.port}\n  User {server.host().user}\n")
    far = server.host(address="far", port=None, user="", ssh_args=f"-F {config}")
    assert ssh.fetch(far, SOURCES).of("kernel")


@pytest.mark.parametrize(
    ("jump", "told"),
    [
        ("ops@[2001:db8::1]:2222", ("ops", "2001:db8::1", 2222)),
        ("ssh://gate.example.net/", (None, "gate.example.net", None)),
        ("gate", (None, "gate", None)),
    ],
)
def test_forms_of_jump_hosts(server: Server, jump: str, told: tuple[str | None, str, int | None]) -> None:
    options = read_options(server.host(ssh_args=f"-J {jump}"))
    first = options.to_jump_host(options.jumps[0], ())
    assert (first.user, first.address, first.port) == told

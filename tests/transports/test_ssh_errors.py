"""Each way in which a connection does not come about, or ends, has a line of its own that says where and what."""

from __future__ import annotations

import errno
import re
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from paramiko.ssh_exception import NoValidConnectionsError

from qwenhost.records.errors import HostUnreachable
from qwenhost.records.source import command
from qwenhost.transports import piped, ssh
from qwenhost.transports.ssh_errors import Leg, cannot_connect
from qwenhost.transports.ssh_options import SshOptions

from .conftest import ADDRESS, Server, started

SOURCES = [command("kernel", "uname", "-r")]

Answer = Callable[[socket.socket], None]


def close(client: socket.socket) -> None:
    client.close()


def reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def no_ssh(client: socket.socket) -> None:
    client.sendall(b"HTTP/1.1 400 Bad Request\r\n" * 101)


def close_after_banner(client: socket.socket) -> None:
    client.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
    client.recv(100)
    client.close()


@contextmanager
def answering(answer: Answer) -> Iterator[int]:
    """A port whose first client gets this answer."""
    with socket.socket() as listening:
        listening.bind((ADDRESS, 0))
        listening.listen()
        kept: list[socket.socket] = []

        def serve() -> None:
            client, _ = listening.accept()
            kept.append(client)
            answer(client)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listening.getsockname()[1]
        thread.join()
        for client in kept:
            client.close()


def told(server: Server, **changes: object) -> HostUnreachable:
    with pytest.raises(HostUnreachable) as caught:
        ssh.fetch(server.host(**changes), SOURCES)
    assert str(caught.value).startswith("lab1: ") and "\n" not in str(caught.value)
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (close, "closed the connection before the login was done"),
        (reset, "closed the connection before the login was done"),
        (close_after_banner, "closed the connection before the login was done"),
        (no_ssh, "no SSH server answers at .*, but something else"),
    ],
)
def test_what_is_no_ssh_server_or_breaks_off(server: Server, answer: Answer, message: str) -> None:
    with answering(answer) as port:
        error = told(server, port=port)
    assert f"{ADDRESS}:{port}" in str(error)
    assert re.search(message, str(error)), error


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (errno.EHOSTUNREACH, "no route to 192.0.2.1:22"),
        (errno.ECONNREFUSED, "192.0.2.1:22 refuses the connection"),
    ],
)
def test_what_the_network_says(server: Server, code: int, message: str) -> None:
    error = NoValidConnectionsError({("192.0.2.1", 22): OSError(code, "")})
    leg = Leg(SshOptions("192.0.2.1", None, None))
    assert message in str(cannot_connect(server.host(), leg, error))


@contextmanager
def running(folder: Path, *settings: str) -> Iterator[Server]:
    """An sshd with settings of its own."""
    port, process = started(folder, *settings)
    yield Server(port, folder)
    process.terminate()
    process.wait()


def test_a_refused_key_is_named(server: Server) -> None:
    key = str(server.folder / "other_key")
    assert f"does not let user {server.host().user} in: it does not take the key {key}" in str(
        told(server, key_file=key)
    )


def test_a_refused_password_is_told_with_what_is_taken(server: Server) -> None:
    error = told(server, key_file="", password="wrong-Pa55")
    assert "it does not take the password; it takes publickey" in str(error)
    assert "wrong-Pa55" not in str(error) + error.hint


def test_too_many_keys(server: Server, tmp_path: Path) -> None:
    keys = " ".join(f"-i {tmp_path}/{name}_key" for name in ("other", "noisy", "user"))
    with running(tmp_path, "MaxAuthTries 1") as strict:
        error = told(strict, key_file="", ssh_args=keys)
    assert "after too many keys" in str(error) and "ssh_private_key_file" in error.hint


def test_too_many_logins_at_a_time(server: Server, tmp_path: Path) -> None:
    with running(tmp_path, "MaxStartups 1") as strict, socket.create_connection((ADDRESS, strict.port)) as other:
        other.recv(100)
        error = told(strict)
    assert "closed the connection before the login was done" in str(error) and "MaxStartups" in error.hint


def test_a_key_that_is_none_and_one_with_a_passphrase(server: Server, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no key\n")
    assert "cannot be read" in str(told(server, key_file=str(tmp_path / "text")))
    keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "some words", "-f", str(tmp_path / "key")]
    subprocess.run(keygen, check=True)
    assert "has a passphrase" in str(told(server, key_file=str(tmp_path / "key")))


def test_a_connection_that_is_cut_is_no_refusal(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(piped, "BOOTSTRAP", "import os,signal;os.kill(os.getppid(),signal.SIGKILL)")
    assert "was cut before the answer came" in str(told(server))


def test_the_jump_host_that_fails_is_the_one_that_is_named(server: Server) -> None:
    jump = f"{server.host().user}@{ADDRESS}"
    assert f"{ADDRESS}:9 refuses" in str(told(server, ssh_args=f"-J {jump}:9"))
    beyond = told(server, port=9, ssh_args=f"-J {jump}:{server.port}")
    assert f"the jump host cannot reach {ADDRESS}:9" in str(beyond)


SUDO = """#!/usr/bin/env python3
import os, sys
asks, right = sys.argv[1] == "-S", b"right-Pa55\\n"
def line():
    read = b""
    while not read.endswith(b"\\n"):
        read += os.read(0, 1) or sys.exit("sudo: no password was provided")
    return read
for _ in range(3 if asks else 0):
    os.write(2, sys.argv[3].encode())
    if line() == right:
        break
else:
    if not os.path.exists(os.path.dirname(__file__) + "/nopasswd"):
        sys.exit("sudo: a password is required")
os.execvp(sys.argv[sys.argv.index("--") + 1], sys.argv[sys.argv.index("--") + 1 :])
"""
"""Asks for a password as sudo does, up to three times."""


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory, server: Server) -> Iterator[Server]:
    """An sshd on a host whose sudo wants a password."""
    folder = tmp_path_factory.mktemp("sudo")
    folder.joinpath("sudo").write_text(SUDO)
    folder.joinpath("sudo").chmod(0o755)
    with running(folder, f"SetEnv PATH={folder}:/usr/local/bin:/usr/bin:/bin") as server:
        yield server


def test_sudo_gets_its_password_and_nothing_else_does(asking: Server) -> None:
    host = asking.host(become=True, become_password="right-Pa55")
    assert ssh.fetch(host, SOURCES).of("kernel")
    assert "right-Pa55" not in ssh.remote_command(host) + repr(host)


def test_a_wrong_password_is_tried_once(asking: Server) -> None:
    error = told(asking, become=True, become_password="wrong-Pa55")
    assert "sudo does not take the become password" in str(error)
    assert "wrong-Pa55" not in str(error) + error.hint
    assert "--ask-become-pass" in told(asking, become=True).hint

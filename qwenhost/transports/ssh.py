"""A host over SSH, in one round trip: probe and request go in on standard input, the bundle comes out.

Nothing is written on the host: the probe is imported from memory. Host keys are checked, always.
"""

from __future__ import annotations

import contextlib
import json
import logging
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import fabric
import paramiko

from qwenhost.packing import hands_zipapp, probe_zipapp, trials_zipapp
from qwenhost.records.bundle import Bundle
from qwenhost.records.errors import HostUnreachable
from qwenhost.records.host import LOCAL, Host
from qwenhost.records.source import Source
from qwenhost.transports import goodbyes, local, piped
from qwenhost.transports.request import PROBE_SECONDS, longest_trials, make_request, read_answer
from qwenhost.transports.ssh_errors import Leg, cannot_connect, cannot_run, cut_off, wrong_become_password
from qwenhost.transports.ssh_options import SshOptions, read_options

CONNECT_SECONDS = 10
ANSWER_SECONDS = PROBE_SECONDS + 8
"""The probe ends by itself; the rest is for sending it and for starting Python on a busy host."""

ASKED = "qwenhost: sudo asks"
"""Sudo's prompt; a second one means that the password is wrong."""

SYSTEM_KNOWN_HOSTS = Path("/etc/ssh/ssh_known_hosts")

TURN_SECONDS = 0.02

logging.getLogger("paramiko").addHandler(logging.NullHandler())  # its tracebacks are told as one line here


def fetch(host: Host, sources: Iterable[Source]) -> Bundle:
    """Read `sources` on `host`. Raises HostUnreachable, with one line and a hint."""
    return _bundle(host, "probe", probe_zipapp(), sources, ANSWER_SECONDS)


def try_out(host: Host, trials: Sequence[Source]) -> Bundle:
    """Run trials on `host`. Raises HostUnreachable, with one line and a hint."""
    return _bundle(host, "trials", trials_zipapp(), trials, longest_trials(trials))


def _bundle(host: Host, package: str, zipapp: bytes, sources: Iterable[Source], seconds: float) -> Bundle:
    request = make_request(host.name, sources)
    code, output, messages = _run(host, remote_command(host, package), zipapp, request, seconds)
    if code != 0:
        raise cannot_run(host, code, messages)
    return read_answer(host.name, output[max(output.find(b'{"schema"'), 0) :])


def act(host: Host, name: str, request: Mapping[str, Any], seconds: float, check: bool = False) -> dict[str, Any]:
    """Do one host-side act, or say what it would do, and return its answer.

    Raises HostUnreachable, and OSError when the act failed.
    """
    command, body = remote_command(host, "hands", name, *["--check"] * check), json.dumps(request).encode()
    code, output, messages = _run(host, command, hands_zipapp(), body, seconds)
    answer: Any = None
    with contextlib.suppress(ValueError, IndexError):
        answer = json.loads(output.splitlines()[-1])
    if not isinstance(answer, dict):
        raise cannot_run(host, code, messages)
    if "error" in answer:
        raise OSError(answer["error"])
    return answer


def remote_command(host: Host, package: str = "probe", *arguments: str) -> str:
    """Return the command that reads a zipapp from its standard input and runs it."""
    asked = bool(host.become_password)
    sudo = ["sudo", *(["-S", "-p", ASKED] if asked else ["-n"]), "--"] if host.become else []
    return shlex.join([*sudo, host.python or "python3", "-c", piped.program(package, say_ready=asked), *arguments])


def _run(host: Host, command: str, zipapp: bytes, request: bytes, seconds: float) -> tuple[int, bytes, bytes]:
    """Send a zipapp and a request to a command; return exit code, output and messages."""
    payload = piped.payload(zipapp, request)
    if host.connection == LOCAL:
        return local.run(host.name, command, payload, seconds)
    with connected(host, read_options(host)) as client:
        return _execute(client, command, payload, host, seconds)


@contextlib.contextmanager
def connected(host: Host, options: SshOptions) -> Iterator[paramiko.SSHClient]:
    """Open a connection, through the jump host if there is one. Raises HostUnreachable."""
    connection, opened = None, False
    try:
        connection = _connection(options)
        connection.open()
        opened = True
        yield connection.client
    except HostUnreachable:
        raise
    except (paramiko.SSHException, OSError, EOFError, ValueError) as error:
        told = cut_off(host, error) if opened else cannot_connect(host, _failed_leg(connection, options), error)
        raise told from error
    finally:
        if connection is not None:
            _close(connection)


def _failed_leg(connection: fabric.Connection | None, options: SshOptions) -> Leg:
    """Return the first connection on the way that did not come about: to a jump host, or to the host itself."""
    gateway = getattr(connection, "gateway", None)
    if options.jumps and not (gateway and gateway.is_connected):
        *before, last = options.jumps
        return _failed_leg(gateway, options.to_jump_host(last, before))
    transport = connection.client.get_transport() if connection is not None else None
    return Leg(options, goodbyes.said(transport.ident) if transport else "")


def _close(connection: fabric.Connection) -> None:
    """Close a connection, also one that only half came about, and the jump hosts or command it went through.

    A transport left open on a command that ended spins on its empty output.
    """
    transport = connection.client.get_transport()
    with contextlib.suppress(OSError, EOFError):
        connection.client.close()
    proxy = getattr(transport, "sock", None)
    if isinstance(proxy, paramiko.ProxyCommand):
        transport.join(CONNECT_SECONDS)  # it uses the pipes and signals the process for a moment more
        proxy.process.kill()
        with proxy.process:  # closes its pipes and waits
            pass
    if isinstance(connection.gateway, fabric.Connection):
        _close(connection.gateway)


def _connection(options: SshOptions) -> fabric.Connection:
    keys = [str(Path(name).expanduser()) for name in options.key_files]
    config = fabric.Config(runtime_ssh_path=options.config_file) if options.config_file else None
    connection = fabric.Connection(
        options.address,
        config=config,
        user=options.user,
        port=options.port,
        gateway=_gateway(options),
        connect_timeout=CONNECT_SECONDS,
        connect_kwargs={
            **({"key_filename": keys, "look_for_keys": False} if keys else {}),
            **({"password": options.password} if options.password else {}),
            "banner_timeout": CONNECT_SECONDS,
            "auth_timeout": CONNECT_SECONDS,
        },
    )
    _check_host_keys(connection.client, options)
    return connection


def _gateway(options: SshOptions) -> Any:
    """Return a connection to the last jump host (itself reached through those before), or a command."""
    if not options.jumps:
        return options.proxy_command or None
    *before, last = options.jumps
    return _connection(options.to_jump_host(last, before))


def _check_host_keys(client: paramiko.SSHClient, options: SshOptions) -> None:
    """Fabric would accept any key; accept only known ones, unless the inventory says otherwise."""
    for name in options.known_hosts_files:
        client.load_system_host_keys(str(Path(name).expanduser()))
    if not options.known_hosts_files:
        client.load_system_host_keys()
        if SYSTEM_KNOWN_HOSTS.exists():
            client.load_system_host_keys(str(SYSTEM_KNOWN_HOSTS))
    accept = options.accept_unknown_keys
    client.set_missing_host_key_policy(paramiko.AutoAddPolicy() if accept else paramiko.RejectPolicy())


def _execute(
    client: paramiko.SSHClient, command: str, payload: bytes, host: Host, seconds: float
) -> tuple[int, bytes, bytes]:
    """Run a command with `payload` on its standard input; return exit code, output and messages."""
    channel = client.get_transport().open_session(timeout=CONNECT_SECONDS)
    end = time.monotonic() + seconds
    channel.settimeout(seconds)
    try:
        channel.exec_command(command)
        if host.become and host.become_password:
            _give_password(channel, host, end)
        with contextlib.suppress(OSError):  # a command that ends early says why below
            channel.sendall(payload)
            channel.shutdown_write()
        output = _read_until_closed(channel.makefile("rb"), channel, end)
        messages = channel.makefile_stderr("rb").read()
        return channel.recv_exit_status(), output, messages
    except TimeoutError as error:
        raise HostUnreachable(
            f"{host.name}: no answer within {seconds:g} s of the command's start",
            hint="the host is overloaded, or its processes hang; look at its console",
        ) from error
    finally:
        channel.close()


def _give_password(channel: paramiko.Channel, host: Host, end: float) -> None:
    """Send sudo's password and wait until its command runs; one that ends before says why on its own."""
    channel.sendall(host.become_password.encode() + b"\n")
    said, asked = b"", b""
    while piped.READY.encode() not in said and not (channel.exit_status_ready() and not channel.recv_ready()):
        if channel.recv_ready():
            said += channel.recv(4096)
        elif channel.recv_stderr_ready():
            asked += channel.recv_stderr(4096)
        elif time.monotonic() > end:
            raise TimeoutError
        else:
            time.sleep(TURN_SECONDS)
        if asked.count(ASKED.encode()) > 1:
            raise wrong_become_password(host)


def _read_until_closed(stream: Any, channel: paramiko.Channel, end: float) -> bytes:
    chunks = []
    while chunk := stream.read(65536):
        chunks.append(chunk)
        channel.settimeout(max(end - time.monotonic(), 0.1))
    return b"".join(chunks)

"""`python -m qwenhost.lab.proxy LAB`: the HTTP proxy through which lab hosts reach package registries.

It listens on the lab's interface only, and connects only to the origins of `registries.allowed_origins`. Each
connection carries one request.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from dataclasses import dataclass
from urllib.parse import urlsplit

from qwenhost.lab import cgroups
from qwenhost.lab.layout import PROXY_PORT, Lab
from qwenhost.lab.registries import Origin, allowed_origins

HEAD_LIMIT_BYTES = 65536
CONNECT_TIMEOUT_SECONDS = 30
HOP_HEADERS = ("proxy-", "connection:", "keep-alive:")

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True)
class Request:
    """What a client asked for. `opening` is what the origin gets first: empty for a CONNECT tunnel."""

    origin: Origin
    opening: bytes
    tunnel: bool


def parse_request(head: bytes) -> Request:
    """Read a request's head, up to its empty line; raises ValueError when it is not a proxy's request."""
    first, *headers = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    if method == "CONNECT":
        host, port = target.rsplit(":", 1)
        return Request((host, int(port)), b"", tunnel=True)
    url = urlsplit(target)
    if url.scheme != "http" or not url.hostname:
        raise ValueError(f"{target!r} is not an http URL")
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    kept = [line for line in headers if line and not line.lower().startswith(HOP_HEADERS)]
    lines = [f"{method} {path} HTTP/1.1", *kept, "Connection: close", "", ""]
    return Request((url.hostname, url.port or 80), "\r\n".join(lines).encode("latin-1"), tunnel=False)


async def serve_client(client: Streams, allowed: set[Origin]) -> None:
    """Answer one connection of a client: 400, 403, 502, or the origin's own bytes."""
    reader, writer = client
    with contextlib.closing(writer):
        try:
            request = parse_request(await reader.readuntil(b"\r\n\r\n"))
        except (ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            await _refuse(writer, "400 Bad Request")
            return
        verdict = "allowed" if request.origin in allowed else "refused"
        print(f"{verdict} {request.origin[0]}:{request.origin[1]}", flush=True)
        if verdict == "refused":
            await _refuse(writer, "403 Forbidden")
            return
        try:
            origin = await asyncio.wait_for(asyncio.open_connection(*request.origin), CONNECT_TIMEOUT_SECONDS)
        except (OSError, TimeoutError):
            await _refuse(writer, "502 Bad Gateway")
            return
        await _relay(request, client, origin)


async def _relay(request: Request, client: Streams, origin: Streams) -> None:
    with contextlib.closing(origin[1]):
        if request.tunnel:
            client[1].write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        origin[1].write(request.opening)
        upward = asyncio.create_task(_copy(client[0], origin[1]))
        await _copy(origin[0], client[1])
        upward.cancel()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(HEAD_LIMIT_BYTES):
            target.write(data)
            await target.drain()
        target.write_eof()


async def _refuse(writer: asyncio.StreamWriter, status: str) -> None:
    writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
    with contextlib.suppress(OSError):
        await writer.drain()


def listening_socket(lab: Lab) -> socket.socket:
    """A socket that only the lab's interface reaches."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, lab.interface.encode())
    made.bind((lab.machine_address, PROXY_PORT))
    return made


async def serve(lab: Lab, allowed: set[Origin]) -> None:
    """Serve the lab's hosts until the process is ended."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await serve_client((reader, writer), allowed)

    server = await asyncio.start_server(handle, sock=listening_socket(lab), limit=HEAD_LIMIT_BYTES)
    print(f"serving {' '.join(sorted({host for host, _ in allowed}))}", flush=True)
    await server.serve_forever()


def main() -> None:
    """Serve the lab named by the first argument, from its own control group."""
    lab = Lab(sys.argv[1])
    cgroups.join(cgroups.of_proxy(lab))
    asyncio.run(serve(lab, allowed_origins()))


if __name__ == "__main__":
    main()

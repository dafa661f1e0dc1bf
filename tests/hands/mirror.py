"""A web server with the files of a model, which breaks off when it is told to."""

from __future__ import annotations

import hashlib
import http.server
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager


def sums(files: dict[str, bytes]) -> bytes:
    return "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in files.items()).encode()


class Mirror(http.server.ThreadingHTTPServer):
    """Serves files and their sums; `cuts` many answers end half-way, `ranges` tells what was asked for."""

    def __init__(self, files: dict[str, bytes], address: str = "127.0.0.1") -> None:
        super().__init__((address, 0), Handler)
        self.files = {**files, "SHA256SUMS": sums(files)}
        self.url = f"http://{address}:{self.server_port}/models/"
        self.cuts = 0
        self.ranges: list[int] = []
        self.resumes = True

    @contextmanager
    def serving(self) -> Iterator[Mirror]:
        thread = threading.Thread(target=self.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield self
        finally:
            self.shutdown()
            thread.join()
            self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    server: Mirror

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, with_body: bool) -> None:
        data = self.server.files.get(self.path.removeprefix("/models/"))
        if data is None:
            self.send_error(404)
            return
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(asked[1]) if asked and self.server.resumes else 0
        if with_body and asked:
            self.server.ranges.append(int(asked[1]))
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        if with_body:
            self.wfile.write(self._body(data[start:]))

    def _body(self, data: bytes) -> bytes:
        if len(data) < 1000 or not self.server.cuts:
            return data
        self.server.cuts -= 1
        return data[: len(data) // 2]

    def log_message(self, format: str, *args: object) -> None:
        pass

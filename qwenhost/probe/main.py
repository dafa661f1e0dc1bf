"""The probe's command: a request on standard input, a bundle on standard output."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from qwenhost.probe.capture import capture

SCHEMA = 1
LARGEST_REQUEST_BYTES = 4 * 1024 * 1024


def main() -> None:
    """Read a request, answer it, end the process. Exit 0: a bundle was written; 2: not a request."""
    bundle = answer(sys.stdin.buffer.read(LARGEST_REQUEST_BYTES))
    sys.stdout.buffer.write(json.dumps(bundle).encode("utf-8"))
    sys.stdout.buffer.flush()
    os._exit(0)  # nothing is left to clean up, and an abandoned reader must not hold the exit


def answer(raw: bytes) -> dict[str, Any]:
    """Return the bundle for a request in JSON."""
    try:
        request = json.loads(raw.decode("utf-8"))
        if request["schema"] != SCHEMA:
            raise ValueError("request schema {!r}, this probe answers {}".format(request["schema"], SCHEMA))
        return capture(request["sources"], request.get("host") or os.uname().nodename)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        sys.stderr.write("probe: not a request: {!r}\n".format(error))
        sys.exit(2)

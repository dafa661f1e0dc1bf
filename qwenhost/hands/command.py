"""Runs a program of the host and tells in one line why it failed."""

from __future__ import annotations

import os
import subprocess

from qwenhost.hands.answer import Refused, why

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def call(*argv: str, seconds: float = 60) -> str:
    """Return what a program said. Raises Refused with its last line."""
    name = os.path.basename(argv[0])
    try:
        ran = subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PATH": PATH, "LC_ALL": "C"},
            timeout=seconds,
            universal_newlines=True,
            errors="replace",
        )
    except subprocess.TimeoutExpired as error:
        raise Refused("{} did not end in {:g} s".format(name, seconds)) from error
    except OSError as error:
        raise Refused("{}: {}".format(name, why(error))) from error
    if ran.returncode != 0:
        lines = ran.stdout.strip().splitlines() or ["no message"]
        raise Refused("{} ended with {}: {}".format(name, ran.returncode, lines[-1]))
    return ran.stdout

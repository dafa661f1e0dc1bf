"""A zipapp that a host runs from its standard input: nothing is written there, and one command is all it takes."""

from __future__ import annotations

import re

READY = "qwenhost is ready"
HEADING = "qwenhost-zipapp"
"""Begins the line before a zipapp, with its bytes."""

BOOTSTRAP = (
    "import os,sys;"
    'sys.version_info<(3,8) and sys.exit("python too old: "+sys.version.split()[0]);'
    "SAY_READY"
    'i=sys.stdin.buffer;n=int(next(l for l in i if l.startswith(b"HEADING")).split()[1]);'
    "f=os.memfd_create(str(n));"
    'open(f,"wb",closefd=False).write(i.read(n));'
    'sys.path.insert(0,"/proc/self/fd/"+str(f));'
    "from qwenhost.PACKAGE.main import main;main()"
)
"""Understood by any Python 3; free of single quotes and of what a login shell might expand.

What comes before the heading is passed over: a password that sudo did not ask for.
"""

SAY_READY = f'os.write(1,b"{READY}");'


def program(package: str, say_ready: bool = False) -> str:
    """Return what `python3 -c` is given to read a zipapp and run the main function of a package in it."""
    parts = {"PACKAGE": package, "HEADING": HEADING, "SAY_READY": SAY_READY if say_ready else ""}
    return re.sub("|".join(parts), lambda part: parts[part[0]], BOOTSTRAP)


def payload(zipapp: bytes, request: bytes) -> bytes:
    """Return what the program reads."""
    return f"{HEADING} {len(zipapp)}\n".encode() + zipapp + request

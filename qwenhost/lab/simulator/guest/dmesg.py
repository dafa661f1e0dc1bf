"""Stand-in for dmesg: prints the simulated kernel log."""

from __future__ import annotations

import argparse
import re
import sys
import time

from . import state

STAMP = re.compile(r"\[\s*(\d+\.\d+)\] ?(.*)")
LEVELS = (
    ("err", re.compile(r"Xid|SXid|error", re.IGNORECASE)),
    ("warn", re.compile(r"taint", re.IGNORECASE)),
)


def level_of(text: str) -> str:
    """Return the level that the simulator gives a message."""
    return next((name for name, pattern in LEVELS if pattern.search(text)), "info")


def formatted(line: str, chosen: argparse.Namespace, boot: float) -> str:
    """Return one log line in the form that the options ask for."""
    found = STAMP.match(line)
    if not found:
        return line
    seconds, text = float(found.group(1)), found.group(2)
    stamp = f"[{seconds:12.6f}]"
    if chosen.ctime:
        stamp = time.strftime("[%a %b %e %H:%M:%S %Y]", time.localtime(boot + seconds))
    if chosen.time_format == "iso":
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(boot + seconds))
        stamp += f",{(boot + seconds) % 1 * 1e6:06.0f}+00:00"
    prefix = f"kern  :{level_of(text):<6}: " if chosen.decode else ""
    return f"{prefix}{stamp} {text}"


def parse(arguments: list[str]) -> argparse.Namespace:
    """Return the options; those that make no difference here are taken and ignored."""
    about = "Kernel log of the qwenhost lab's simulator; this is not the log of a real kernel."
    parser = argparse.ArgumentParser("dmesg", description=about)
    parser.add_argument("-T", "--ctime", action="store_true", help="human readable time stamps")
    parser.add_argument("-x", "--decode", action="store_true", help="show facility and level")
    parser.add_argument("-l", "--level", default="", help="only these levels: err, warn, info")
    parser.add_argument(
        "--time-format", default="", choices=["", "iso", "ctime", "raw"], help="form of the time stamps"
    )
    parser.add_argument("-k", "--kernel", action="store_true", help="always the case")
    for option in (("-H", "--human"), ("-P", "--nopager"), ("-r", "--raw")):
        parser.add_argument(*option, action="store_true", help="ignored")
    parser.add_argument("--color", "-L", nargs="?", help="ignored")
    chosen = parser.parse_args(arguments)
    chosen.ctime = chosen.ctime or chosen.time_format == "ctime"
    return chosen


def main(arguments: list[str]) -> int:
    """Print the log."""
    chosen = parse(arguments)
    levels = [level for level in chosen.level.replace("emerg,alert,crit,", "").split(",") if level]
    boot = float(state.read()["boot.epoch"])
    for line in (state.folder() / "kmsg").read_text(encoding="utf-8").splitlines():
        found = STAMP.match(line)
        if not levels or (found and level_of(found.group(2)) in levels):
            sys.stdout.write(formatted(line, chosen, boot) + "\n")
    return 0

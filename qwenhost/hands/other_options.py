"""An instance with other options for a while; whatever ends that, it serves with its own again.

Nothing that outlasts a boot is written: a drop-in in /run lays another options file over the instance's own.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any

from qwenhost.hands import kernel, runs, systemd
from qwenhost.hands.answer import BadRequest, Refused, outcome

NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
FOLDER = "run/qwenhost/other-options"
DROPIN = """# Temporary, until this process ends: qwenhost bench --compare-defaults.
[Service]
BindReadOnlyPaths={options}:/etc/qwenhost/vllm/{name}.yaml
ExecStopPost=+/bin/sh -c '[ "$$INVOCATION_ID" = {before} ] || {{ rm -f {dropin}; systemctl daemon-reload; }}'
"""
"""The process before is stopped under this drop-in, too, and leaves it; systemd.exec(5) on $INVOCATION_ID."""

STOP_SECONDS = 600
SECONDS_OF = {"h": 3600, "min": 60, "s": 1}
"""How systemctl writes a time span: "1h 15min"."""

TELLING = re.compile(r"Error: |error: |^qwenhost: ")
LOG_HEAD = re.compile(r"^\([^)]*pid=\d+\)\s*(?:[A-Z]+ [\d-]+ [\d:]+ \[[^]]*\]\s*)?")
"""Before each line that a process of vLLM logs: which one, when and where in its code."""

NOT_TELLING = re.compile(r"WARNING|Engine core initialization failed|ended before it was ready")


def serve_with(request: dict[str, Any], check: bool = False) -> dict[str, Any]:
    """Serve {"instance"} with {"options"} and nothing else for at most {"seconds"}, as soon as it is ready.

    {"why_not"} tells why it does not start so; it has its own options again then. Raises Refused where another
    run holds the host, and where the instance does not serve.
    """
    instance = _Instance(request["instance"])
    options, seconds = dict(request["options"]), int(request["seconds"])
    held = runs.holder()
    if held:
        raise Refused("the run {} of {} holds this host".format(held["run"], held["controller"]))
    if instance.told("ActiveState") != "active":
        raise Refused("{} does not serve".format(instance.unit))
    if check:
        return outcome([], [])
    instance.end_lease()
    systemd.later(seconds, instance.timer, "/bin/sh", "-c", instance.end_of_lease)
    _write(instance.options, json.dumps(options))
    _write(instance.dropin, DROPIN.format(**instance.places, before=instance.told("InvocationID")))
    try:
        instance.restart()
    except Refused as refused:
        why = instance.why(str(refused))
        serve_own(request)
        return {**outcome([], []), "why_not": why}
    return {**outcome([], []), "why_not": ""}


def serve_own(request: dict[str, Any], check: bool = False) -> dict[str, Any]:
    """Serve {"instance"} with its own options again, as soon as it is ready.

    {"lasted"}: whether it still had the other ones; if not, something else has restarted it meanwhile.
    """
    instance = _Instance(request["instance"])
    lasted = os.path.exists(kernel.path_of(instance.dropin))
    if check:
        return {**outcome([], []), "lasted": lasted}
    for path in (instance.dropin, instance.options):
        if os.path.exists(kernel.path_of(path)):
            os.unlink(kernel.path_of(path))
    if lasted:
        instance.restart()
    else:
        systemd.call("start", instance.unit, seconds=instance.start_seconds())
    instance.end_lease()
    return {**outcome([], []), "lasted": lasted}


class _Instance:
    """Its unit and the files in /run that change it."""

    def __init__(self, name: Any) -> None:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise BadRequest("an instance is named by letters, digits, - and _, not {!r}".format(name))
        self.name, self.unit = name, "vllm@{}.service".format(name)
        self.options = "{}/{}.yaml".format(FOLDER, name)
        self.dropin = "run/systemd/system/{}.d/90-other-options.conf".format(self.unit)
        self.timer = "qwenhost-own-options-" + name

    @property
    def places(self) -> dict[str, str]:
        return {"name": self.name, "options": "/" + self.options, "dropin": "/" + self.dropin}

    @property
    def end_of_lease(self) -> str:
        """What the timer runs: the controller that should have ended this is gone."""
        return "[ ! -e /{} ] || systemctl restart {}".format(self.dropin, self.unit)

    def end_lease(self) -> None:
        for timer in systemd.running(self.timer + ".timer"):
            systemd.call("stop", timer)

    def told(self, name: str) -> str:
        return systemd.call("show", "--property=" + name, "--value", self.unit).strip()

    def start_seconds(self) -> float:
        """Return how long a start may take by the unit itself, with the stop before it."""
        spans = re.findall(r"([\d.]+)([a-z]+)", self.told("TimeoutStartUSec"))
        return STOP_SECONDS + sum(float(number) * SECONDS_OF.get(unit, 0) for number, unit in spans)

    def restart(self) -> None:
        """Restart it with what its files say now; several restarts in a row are no crash loop."""
        systemd.call("daemon-reload")
        systemd.call("reset-failed", self.unit)
        systemd.call("restart", self.unit, seconds=self.start_seconds())

    def why(self, otherwise: str) -> str:
        """Return what its last start said of its failure."""
        lines = [line.strip() for line in systemd.journal("_SYSTEMD_INVOCATION_ID=" + self.told("InvocationID"))]
        told = [LOG_HEAD.sub("", line) for line in lines if TELLING.search(line) and not NOT_TELLING.search(line)]
        return " | ".join(list(dict.fromkeys(told))[-2:]) or otherwise


def _write(path: str, text: str) -> None:
    real = kernel.path_of(path)
    os.makedirs(os.path.dirname(real), mode=0o755, exist_ok=True)
    with open(real, "w", encoding="utf-8") as file:
        file.write(text)

"""Other options for a while: what is written, what systemd is told, and the way back; systemd is a script."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path

import pytest

from tests.hands.conftest import Hands, Ran

SYSTEMD = """#!/bin/sh
echo "${0##*/} $*" >> "$QWENHOST_ROOT/calls"
case "$*" in
  *property=ActiveState*) cat "$QWENHOST_ROOT/state" ;;
  *property=InvocationID*) echo 0123abcd ;;
  *property=TimeoutStartUSec*) echo 1h 15min ;;
  "--no-ask-password restart vllm@main"*) [ ! -e "$QWENHOST_ROOT/obstacle" ] || { rm -f "$QWENHOST_ROOT/run/systemd/system/vllm@main.service.d/"*; exit 1; } ;;
  *list-units*) [ ! -e "$QWENHOST_ROOT/timer" ] || echo qwenhost-own-options-main.timer loaded active waiting ;;
esac
if [ "${0##*/}" = journalctl ] && [ -e "$QWENHOST_ROOT/obstacle" ]; then cat "$QWENHOST_ROOT/obstacle"; fi
"""  # noqa: E501
DROPIN = "run/systemd/system/vllm@main.service.d/90-other-options.conf"
OPTIONS = "run/qwenhost/other-options/main.yaml"
REQUEST = {"instance": "main", "options": {"model": "/m", "port": 8000}, "seconds": 900}

TOO_MANY = "ValueError: max_num_seqs (256) exceeds available Mamba cache blocks (42)"


@pytest.fixture
def host(root: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host that systemd runs and that serves."""
    programs = tmp_path_factory.mktemp("bin")
    for name in ("systemctl", "systemd-run", "journalctl"):
        (programs / name).write_text(SYSTEMD)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    (root / "run/systemd/system").mkdir(parents=True)
    (root / "state").write_text("active\n")
    return root


def calls(host: Path) -> list[str]:
    """What systemd was told to do since the last look."""
    told = (host / "calls").read_text().splitlines()
    (host / "calls").unlink()
    asked = re.compile(r" (show|list-units) ")
    return [line.replace(" --no-ask-password", "") for line in told if not asked.search(line)]


def done(ran: Ran) -> dict[str, object]:
    assert ran.status == 0, ran.answer
    return ran.answer


def test_there_and_back(hands: Hands, host: Path) -> None:
    assert done(hands("serve-with", REQUEST))["why_not"] == ""
    lease, *restart = calls(host)
    assert lease.startswith("systemd-run --collect --on-active=900 --unit=qwenhost-own-options-main /bin/sh -c ")
    assert lease.endswith(f"[ ! -e /{DROPIN} ] || systemctl restart vllm@main.service")
    again = [f"systemctl {verb}" for verb in ("daemon-reload", "reset-failed vllm@main.service")]
    assert restart == [*again, "systemctl restart vllm@main.service"]
    assert json.loads((host / OPTIONS).read_text()) == REQUEST["options"]
    assert f"BindReadOnlyPaths=/{OPTIONS}:/etc/qwenhost/vllm/main.yaml\n" in (host / DROPIN).read_text()
    (host / "timer").touch()
    assert done(hands("serve-own", REQUEST))["lasted"] is True
    assert calls(host) == [
        *again,
        "systemctl restart vllm@main.service",
        "systemctl stop qwenhost-own-options-main.timer",
    ]
    assert not (host / DROPIN).exists() and not (host / OPTIONS).exists()


def test_only_the_end_of_the_process_with_other_options_takes_the_drop_in_away(hands: Hands, host: Path) -> None:
    done(hands("serve-with", REQUEST))
    (stop,) = re.findall(r"ExecStopPost=\+/bin/sh -c '(.*)'", (host / DROPIN).read_text())
    script = stop.replace("$$", "$").replace(f"/{DROPIN}", str(host / DROPIN))
    for invocation, there in (("0123abcd", True), ("4567ef01", False)):
        subprocess.run(["/bin/sh", "-c", script], env={"INVOCATION_ID": invocation, "PATH": "/bin"}, check=False)
        assert (host / DROPIN).exists() is there
    assert done(hands("serve-own", REQUEST))["lasted"] is False
    assert "systemctl start vllm@main.service" in calls(host)


def test_what_does_not_start_says_why_and_is_taken_back(hands: Hands, host: Path) -> None:
    log = (
        f"(EngineCore pid=7) ERROR 12-03 05:27:00 [core.py:1510] {TOO_MANY}",
        "(EngineCore pid=7) INFO loading",
        TOO_MANY,
        "RuntimeError: Engine core initialization failed. See root cause above.",
        "qwenhost: vLLM ended before it was ready",
    )
    (host / "obstacle").write_text("\n".join(log))
    why = done(hands("serve-with", REQUEST))["why_not"]
    assert why == TOO_MANY
    assert not (host / DROPIN).exists()
    assert calls(host)[-1] == "systemctl start vllm@main.service"


def test_a_host_that_is_being_changed_or_serves_nothing_is_left_alone(hands: Hands, host: Path) -> None:
    lock = {"run": "r1", "controller": "ops@a 1", "since": time.time()}
    (host / "run/qwenhost").mkdir()
    (host / "run/qwenhost/lock").write_text(json.dumps(lock))
    assert hands("serve-with", REQUEST).answer == {"error": "serve-with: the run r1 of ops@a 1 holds this host"}
    (host / "run/qwenhost/lock").unlink()
    (host / "state").write_text("failed\n")
    assert hands("serve-with", REQUEST).answer == {"error": "serve-with: vllm@main.service does not serve"}
    assert not (host / DROPIN).exists()


@pytest.mark.parametrize("name", ["../x", "a b", "", 7])
def test_names_are_names(hands: Hands, host: Path, name: object) -> None:
    assert hands("serve-with", {**REQUEST, "instance": name}).status == 2

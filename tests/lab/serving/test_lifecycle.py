"""What a service lives through by itself: a killed worker, an orderly stop under load, a lost controller."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable

from tests.lab.commands import CHECKOUT, QWENHOST
from tests.lab.serving.conftest import MODEL, NAME, Serving

BACK_SECONDS = 300
"""Of a start on a busy machine; on an idle one it takes 40 s."""

HEALTH = "curl -s -o /dev/null -w '%{http_code}' 127.0.0.1:8000/health || true"
STREAM = """
curl -sN -H "Authorization: Bearer $(cat /etc/qwenhost/vllm/api_key)" -H 'Content-Type: application/json' \
  -d '{"model": "tiny-qwen3.5", "prompt": "Say", "max_tokens": 900, "ignore_eos": true, "stream": true}' \
  127.0.0.1:8000/v1/completions > /tmp/stream 2>&1 &
until grep -q data: /tmp/stream; do :; done
kill -TERM %s
wait
grep -c '"finish_reason":"length"' /tmp/stream; tail -c 20 /tmp/stream
"""


def eventually(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + BACK_SECONDS
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.5)


def back(serving: Serving, before: str) -> None:
    """Wait until another process serves."""
    eventually(lambda: serving.main_pid() not in ("0", before) and serving.on(HEALTH) == "200", "not back")


def test_a_killed_worker_and_a_stop_under_load(serving: Serving) -> None:
    first = serving.main_pid()
    workers = serving.on(f"ps --ppid {first} -o pid= --sort=-rss").split()
    serving.on(f"kill -KILL {workers[0]}")
    back(serving, first)
    second = serving.main_pid()
    done = serving.on(STREAM % second).split()
    assert done == ["1", "data:", "[DONE]"], "the running request was answered in full"
    back(serving, second)
    assert serving.on("systemctl show --property=NRestarts --value vllm@main") == "2"
    assert serving.on("systemctl show --property=ExecMainStatus --value vllm@main") == "0"
    journal = serving.on("journalctl -u vllm@main --output cat | grep 'Main process exited' | tail -2 || true")
    assert "status=0" in journal or not journal


def test_a_start_that_fails_ends_and_a_lost_controller_is_not_missed(serving: Serving) -> None:
    serving.on(f"truncate -s -1000 {MODEL}/model.safetensors && systemctl stop vllm@main")
    serving.on("systemctl reset-failed vllm@main; systemctl start --no-block vllm@main")
    state = "systemctl show --property=ActiveState --value vllm@main"
    eventually(lambda: serving.on(state) == "failed", "still starting")
    assert int(serving.on("systemctl show --property=NRestarts --value vllm@main")) <= 3
    assert "(1000 missing)" in serving.on("journalctl -u vllm@main --output cat --lines 20")
    causes = {f["check"] for f in serving.doctor() if f["verdict"] == "fail" and not f["cause"]}
    assert causes == {"vllm.model-files"}

    serving.on(f"cp /srv/models/{NAME}/model.safetensors {MODEL}/")
    controller = subprocess.Popen(
        [QWENHOST, "provision", str(serving.inventory), "--yes"],
        cwd=CHECKOUT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    eventually(lambda: serving.on(state) == "activating", "the controller did not start it")
    os.killpg(controller.pid, signal.SIGKILL)
    controller.wait()
    eventually(lambda: serving.on(HEALTH) == "200", "the host did not go on")
    assert serving.provision().code == 0
    again = serving.provision()
    assert [host["changes"] for host in json.loads(again.output)["hosts"]] == [[]]

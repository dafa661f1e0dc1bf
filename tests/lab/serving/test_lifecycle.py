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
grep -c '"finish_reason":"length"' /tmp/stream; tail -c 14 /tmp/stream
"""


def eventually(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + BACK_SECONDS
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.5)


STATE = "systemctl show --property=ActiveState --value vllm@main"
RESTARTS = "systemctl show --property=NRestarts --value vllm@main"


def test_no_internal_port_is_open_to_the_network(serving: Serving) -> None:
    ports = [line.split() for line in serving.on("ss -Hltnp").splitlines()]
    own = {address for _, _, _, address, _, user in ports if "vllm" in user.lower()}
    assert "127.0.0.1:8000" in own and len(own) > 1
    assert {address.rsplit(":", 1)[0] for address in own} == {"127.0.0.1"}


def test_a_killed_worker_is_back(serving: Serving) -> None:
    first = serving.main_pid()
    workers = serving.on(f"ps --ppid {first} -o pid= --sort=-rss").split()
    serving.on(f"kill -KILL {workers[0]}")
    eventually(lambda: serving.main_pid() not in ("0", first) and serving.on(HEALTH) == "200", "not back")
    assert serving.on(RESTARTS) == "1"


def test_a_stop_under_load_answers_in_full_and_starts_that_fail_come_to_an_end(serving: Serving) -> None:
    serving.on(f"truncate -s -1000 {MODEL}/model.safetensors; systemctl reset-failed vllm@main")
    assert serving.on(STREAM % serving.main_pid()).split() == ["1", "data:", "[DONE]"]
    eventually(lambda: serving.on(STATE) == "failed", "still starting")
    assert serving.on(RESTARTS) == "4"  # three starts that failed, and the one that was refused
    log = serving.on("journalctl -u vllm@main --output cat --lines 20")
    assert "(1000 missing)" in log and "Start request repeated too quickly" in log
    causes = {f["check"] for f in serving.doctor() if f["verdict"] == "fail" and not f["cause"]}
    assert causes == {"vllm.model-files"}


def test_a_lost_controller_is_not_missed(serving: Serving) -> None:
    serving.on(f"cp /srv/models/{NAME}/model.safetensors {MODEL}/; apt-get update -q")
    serving.declare_proxy()
    loud = {f["check"] for f in serving.doctor() if f["verdict"] == "fail" and f["check"] != "vllm.service"}
    assert {"vllm.proxy", "vllm.api-key"} <= loud
    controller = subprocess.Popen(
        [QWENHOST, "provision", str(serving.inventory), "--yes"],
        cwd=CHECKOUT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    eventually(lambda: serving.on(STATE) == "activating", "the controller did not start it")
    os.killpg(controller.pid, signal.SIGKILL)
    controller.wait()
    eventually(lambda: serving.on(HEALTH) == "200", "the host did not go on")
    done = serving.provision()
    assert done.code == 0, done.messages + done.output
    again = serving.provision()
    assert [host["changes"] for host in json.loads(again.output)["hosts"]] == [[]]

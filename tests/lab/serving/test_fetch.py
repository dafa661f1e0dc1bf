"""A model is fetched, verified and served; what is wrong with its files is told before a service is touched."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.lab.serving.conftest import MODEL, NAME, Serving


@contextmanager
def untouched(serving: Serving) -> Iterator[None]:
    """The same process goes on serving."""
    before = serving.main_pid()
    yield
    assert serving.main_pid() == before != "0"
    assert serving.on("curl -s -o /dev/null -w '%{http_code}' 127.0.0.1:8000/health") == "200"


def test_a_fetch_that_broke_off_goes_on_and_the_model_is_served(serving: Serving) -> None:
    half = len(serving.mirror.files["model.safetensors"]) // 2
    part, weights = f"{MODEL}.part", f"/srv/models/{NAME}/model.safetensors"
    serving.on(f"mkdir -p {part} && head -c {half} {weights} > {part}/model.safetensors")
    serving.mirror.cuts = 1
    done = serving.provision()
    assert done.code == 0, done.messages + done.output
    assert len(serving.mirror.ranges) == 2, "one answer was cut, and one file was half there"
    assert half in serving.mirror.ranges
    assert serving.on(f"cd {MODEL} && sha256sum --check --quiet SHA256SUMS; ls -d {MODEL}*") == MODEL
    (judged,) = [f for f in serving.doctor() if f["check"] == "vllm.model-files"]
    assert judged["verdict"] == "pass", judged
    assert serving.on(
        "systemctl show -p Environment -p EnvironmentFiles vllm@main; cat /etc/qwenhost/vllm/main.env"
    )
    assert 'HF_HUB_OFFLINE="1"' in serving.on("cat /etc/qwenhost/vllm/main.env")


HARM = {
    "truncated": ("truncate -s -1000 {}", "(1000 missing)"),
    "other bytes": ("printf x | dd of={} bs=1 seek=900000 conv=notrunc status=none", "of SHA256SUMS"),
}


@pytest.mark.parametrize("kind", HARM)
def test_broken_weights_are_refused_and_the_service_is_left_alone(serving: Serving, kind: str) -> None:
    command, told = HARM[kind]
    weights = f"{MODEL}/model.safetensors"
    with untouched(serving):
        serving.on(command.format(weights))
        assert [f["check"] for f in serving.doctor() if f["verdict"] == "fail"] == ["vllm.model-files"]
        refused = serving.provision()
        assert refused.code == 1
        assert "model.safetensors: " in refused.messages and told in refused.messages, refused.messages
        serving.on(f"cp /srv/models/{NAME}/model.safetensors {weights}")
        assert serving.provision().code == 0


def test_a_full_disk_is_told_before_anything_is_fetched(serving: Serving) -> None:
    serving.on("mkdir -p /var/lib/full && mount -t tmpfs -o size=3m full /var/lib/full")
    with untouched(serving):
        serving.declare(lambda vllm: vllm["model"].update(path=f"/var/lib/full/{NAME}"))
        refused = serving.provision()
        serving.declare(lambda vllm: vllm["model"].update(path=MODEL))
    assert refused.code == 1
    assert "MiB are missing, 3 MiB are free there; make room and run again" in refused.messages
    serving.on("umount /var/lib/full")

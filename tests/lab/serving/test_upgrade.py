"""An upgrade that starts, is healthy and answers nonsense: the old version serves again, and the run says so."""

from __future__ import annotations

from pathlib import Path

from tests.lab.serving.conftest import HOST, LAB, Serving
from tests.lab.serving.wheels_next import NEXT, VERSION, make

WHEELS = "/var/lib/wheelhouse-next"
UNMEASURED = {"throughput_drop_percent": 100}
ANSWER = 'curl -s -H "Authorization: Bearer $(cat /etc/qwenhost/vllm/api_key)" 127.0.0.1:8000'


def test_what_does_not_prove_itself_is_taken_back(serving: Serving) -> None:
    folder = Path(f"{LAB.named(HOST).root}{WHEELS}")
    folder.mkdir()
    serving.on(f"ln -s /srv/wheelhouse/*.whl {WHEELS}")
    make(folder)
    before = serving.on("cat /etc/qwenhost/vllm/* /etc/systemd/system/vllm@* | sha256sum")
    serving.declare(lambda vllm: vllm.update(version=NEXT, wheels=WHEELS, upgrade=UNMEASURED))
    refused = serving.provision()
    assert refused.code == 1
    told = f"vLLM {NEXT} did not prove itself (smoke."
    assert told in refused.messages and f"{VERSION} serves again" in refused.messages, refused.messages
    assert serving.on("readlink /opt/qwenhost/vllm/current") == VERSION
    assert serving.on(f"{ANSWER}/version") == f'{{"version":"{VERSION}"}}'
    assert serving.on("cat /etc/qwenhost/vllm/* /etc/systemd/system/vllm@* | sha256sum") == before
    assert serving.on(f"ls -a /opt/qwenhost/vllm/{NEXT}/.complete; ls /var/lib/qwenhost/vllm").endswith(
        "main.applied"
    )
    serving.declare(lambda vllm: vllm.update(version=VERSION, wheels="/srv/wheelhouse"))
    settled = serving.provision()
    assert settled.code == 0 and '"changes": []' in settled.output, settled.messages + settled.output

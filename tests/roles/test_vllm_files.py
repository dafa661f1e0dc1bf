"""What the role writes for a model that is fetched, and for the proxy."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from tests.roles.test_vllm_service import ROLE, SERVING, render

PATH = {"vllm_service_model_path": "/srv/models/qwen3.5-27b", "vllm_service_version": "0.32.0"}
INSTANCES = [
    {"name": "a", "port": 8000, "options": {"host": "127.0.0.1"}},
    {"name": "b", "port": 8001, "options": {"host": "0.0.0.0", "ssl-certfile": "/c"}},
]
PLAIN = {"address": "0.0.0.0", "port": 8080, "certificate": "", "key": ""}
SECURE = {**PLAIN, "port": 443, "certificate": "/etc/ssl/q.pem", "key": "/etc/ssl/q.key"}


def variable(name: str, **known: Any) -> Any:
    """Return a variable of the role as it is templated on a run."""
    loader = DataLoader()
    own = [
        loader.load_from_file(f"{ROLE}/{part}/main.yml", trusted_as_template=True) for part in ("defaults", "vars")
    ]
    templar = Templar(loader, {**own[0], **own[1], **PATH, "inventory_hostname": "gpu-a1", **known})
    return templar.template(trust_as_template(f"{{{{ {name} }}}}"))


@pytest.mark.parametrize(
    "source", [{"url": "https://mirror/q/"}, {"hub": "Qwen/Qwen3.5-27B", "revision": "0" * 40, "url": None}]
)
def test_request_of_a_fetch(source: dict[str, str | None]) -> None:
    written = json.loads(json.dumps(variable("__vllm_service_fetch", vllm_service_model_source=source)))
    given = {name: value for name, value in source.items() if value}
    assert written == {**given, "path": SERVING.model_path, "program": ["/opt/qwenhost/vllm/0.32.0/bin/hf"]}


def test_unit_of_a_fetch_runs_once_and_not_at_boot() -> None:
    unit = render("qwenhost-model@.service", PATH)
    assert "Type=oneshot" in unit and "[Install]" not in unit
    assert "hands.pyz model-fetch --config /etc/qwenhost/models/%i.json" in unit


def test_a_push_uses_ansibles_own_way_to_the_host() -> None:
    way = {
        "ansible_host": "10.0.0.7",
        "ansible_user": "ops",
        "ansible_port": 2222,
        "ansible_ssh_private_key_file": "/keys/ops",
        "ansible_ssh_common_args": "-o StrictHostKeyChecking=yes",
        "ansible_become": True,
    }
    assert variable("__vllm_service_push_target", **way) == "ops@10.0.0.7:/srv/models/qwen3.5-27b.part/"
    argv = variable("__vllm_service_rsync", **way)
    assert argv[-1] == "ssh -p 2222 -i /keys/ops -o StrictHostKeyChecking=yes"
    assert "--rsync-path=sudo rsync" in argv and "--partial" in argv
    assert variable("__vllm_service_push_target") == "gpu-a1:/srv/models/qwen3.5-27b.part/"


def test_proxy_asks_each_instance_for_its_health() -> None:
    text = render("vllm-proxy.cfg", {"vllm_service_proxy": PLAIN, "vllm_service_instances": INSTANCES})
    lines = [line.strip() for line in text.splitlines()]
    assert "bind 0.0.0.0:8080" in lines
    assert [line for line in lines if line.startswith("server ")] == [
        "server a 127.0.0.1:8000",
        "server b 127.0.0.1:8001 ssl verify none",
    ]


def test_proxy_with_a_certificate_reads_it_as_a_credential() -> None:
    known = {"vllm_service_proxy": SECURE, "vllm_service_instances": INSTANCES}
    assert 'bind 0.0.0.0:443 ssl crt "${CREDENTIALS_DIRECTORY}/proxy.pem"' in render("vllm-proxy.cfg", known)
    unit = render("vllm-proxy.service", known)
    assert "LoadCredential=proxy.pem.key:/etc/ssl/q.key\n" in unit and "DynamicUser=true\n" in unit
    assert "LoadCredential" not in render("vllm-proxy.service", {**known, "vllm_service_proxy": PLAIN})

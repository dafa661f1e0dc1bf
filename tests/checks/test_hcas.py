"""HCAs: ports, links that flap, GPUDirect RDMA."""

from __future__ import annotations

import json

import pytest

from tests.checks.captures import NCCL, files, host, log, worst


def ibstat(*ports: tuple[str, str, str, str], model: str = "MT4123", rate: int = 200) -> str:
    block = (
        "CA '{}'\n\tCA type: {}\n\tPort 1:\n\t\tState: {}\n\t\tPhysical state: {}\n\t\tRate: {}\n"
        "\t\tLink layer: {}\n"
    )
    return "".join(block.format(name, model, state, how, rate, layer) for name, state, how, layer in ports)


def ibstatus(state: str, how: str, layer: str) -> str:
    return (
        f"Infiniband device 'mlx5_3' port 1 status:\n\tdefault gid:\t fe80::1\n\tstate:\t\t {state}\n"
        f"\tphys state:\t {how}\n\trate:\t\t 200 Gb/sec (4X HDR)\n\tlink_layer:\t {layer}\n"
    )


def devinfo(state: str, layer: str) -> str:
    return (
        "hca_id:\tmlx5_2\n\ttransport:\t\t\tInfiniBand (0)\n\tvendor_part_id:\t\t\t4123\n\t\tport:\t1\n"
        f"\t\t\tstate:\t\t\t{state}\n\t\t\tlink_layer:\t\t{layer}\n"
    )


UP = ("mlx5_0", "Active", "LinkUp", "InfiniBand")
UP_ETHERNET = ("mlx5_0", "Active", "LinkUp", "Ethernet")

PORTS = [
    ("ibstat", ibstat(UP), "pass"),
    ("ibstat", ibstat(UP, ("mlx5_1", "Down", "Polling", "InfiniBand")), "warn"),
    ("ibstat", ibstat(UP, ("mlx5_1", "Initializing", "LinkUp", "InfiniBand")), "warn"),
    ("ibstat", ibstat(UP_ETHERNET, ("mlx5_1", "Down", "Disabled", "Ethernet")), "warn"),
    ("ibstat", ibstat(UP, ("mlx5_1", "Down", "Disabled", "Ethernet")), "note"),
    (
        "ibstat",
        ibstat(UP_ETHERNET) + ibstat(("mlx5_4", "Down", "Disabled", "Ethernet"), model="MT4117", rate=40),
        "note",
    ),
    ("ibstat", ibstat(UP, ("mlx5_1", *UP[1:])) + ibstat(("mlx5_2", *UP[1:]), rate=100), "warn"),
    ("ibstatus", ibstatus("4: ACTIVE", "5: LinkUp", "InfiniBand"), "pass"),
    ("ibstatus", ibstatus("1: DOWN", "2: Polling", "InfiniBand"), "warn"),
    ("ibstatus", ibstatus("1: DOWN", "3: Disabled", "Ethernet"), "note"),
    ("ibv-devinfo", devinfo("PORT_ACTIVE (4)", "InfiniBand"), "pass"),
    ("ibv-devinfo", devinfo("PORT_DOWN (1)", "InfiniBand"), "warn"),
    ("ibv-devinfo", "No IB devices found\n", "skip"),
    ("rdma-link", "link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev ib0\n", "pass"),
    ("rdma-link", "link mlx5_0/1 state DOWN physical_state POLLING netdev ib0\n", "warn"),
    ("ibdev2netdev", "mlx5_0 port 1 ==> ibp12s0 (Down)\n", "warn"),
    ("network", files("4: ACTIVE", "5: LinkUp"), "pass"),
    ("network", files("1: DOWN", "3: Disabled"), "warn"),
    ("network", json.dumps({"/sys/class/net/lo/operstate": "unknown\n"}), "skip"),
]


@pytest.mark.parametrize(("source", "text", "verdict"), PORTS)
def test_ports(source: str, text: str, verdict: str) -> None:
    assert worst(host((source, text)), "ib.ports") == verdict


READABLE = [
    (
        "ibstat",
        ibstat(UP) + "ibpanic: [77] main: stat of IB device 'mlx5_1' failed: No such file or directory\n",
        "note",
    ),
    ("ibstat", "ibwarn: [9] mad_rpc_open_port: can't open UMAD port (mlx5_2:1)\n", "note"),
    ("ibv-devinfo", "Failed to get IB devices list: Function not implemented\n", "note"),
    ("lspci", "5e:00.0 Infiniband controller [0207]: Mellanox Technologies MT28908 [15b3:101b]\n", "warn"),
    ("ibstat", ibstat(UP), "pass"),
]


@pytest.mark.parametrize(("source", "text", "verdict"), READABLE)
def test_hcas_that_cannot_be_asked(source: str, text: str, verdict: str) -> None:
    nothing = ("network", json.dumps({"/sys/class/net/lo/operstate": "unknown\n"}))
    assert worst(host((source, text), nothing), "ib.readable") == verdict


FLAPS = [
    (
        "dmesg",
        log("mlx5_core 0000:5e:00.0 ibp94s0: Link down", "mlx5_core 0000:5e:00.0 ibp94s0: Link up") * 2,
        "warn",
    ),
    ("dmesg", log("mlx5_core 0000:5e:00.0: Port module event: module 0, Cable unplugged") * 3, "warn"),
    (
        "dmesg",
        log(
            "bnxt_en 0000:41:00.0 ens5f0np0: NIC Link is Down", "bnxt_en 0000:41:00.0 ens5f0np0: NIC Link is Down"
        ),
        "warn",
    ),
    ("dmesg", log("mlx5_core 0000:5e:00.0 ens1np0: Link down"), "note"),
    (
        "rdma-link",
        "link mlx5_4/1 state ACTIVE physical_state LINK_UP\nlink mlx5_4/1 state DOWN physical_state POLLING\n",
        "warn",
    ),
    ("nccl-log", f"{NCCL} WARN NET/IB : mlx5_1:1 Got async event : port error\n", "warn"),
    ("nccl-log", "n1:5:6 [0] transport/net_ib.cc:101 NCCL WARN NET/IB : Got async event : port error\n", "warn"),
    ("network", files("4: ACTIVE", "5: LinkUp", drops=1), "pass"),
    ("network", files("4: ACTIVE", "5: LinkUp", drops=41), "warn"),
    ("network", json.dumps({"/sys/class/net/lo/operstate": "unknown\n"}), "skip"),
]


@pytest.mark.parametrize(("source", "text", "verdict"), FLAPS)
def test_links_that_flap(source: str, text: str, verdict: str) -> None:
    assert worst(host((source, text)), "ib.flapping") == verdict


def test_links_come_and_go_while_a_host_starts() -> None:
    lines = "".join(f"[   {20 + n}.000000] mlx5_core 0000:5e:00.0 ens1np0: Link down\n" for n in range(3))
    assert worst(host(("dmesg", lines), ("ibstat", ibstat(UP))), "ib.flapping") == "pass"


DISABLED = f"{NCCL} INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n"
ENABLED = f"{NCCL} INFO NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'\n"
LOADED = "nvidia_peermem 16384 0\nnvidia 56000000 10 nvidia_peermem\nmlx5_ib 450560 0\n"
NOT_LOADED = "nvidia 56000000 10\nib_core 442368 8 mlx5_ib\nmlx5_ib 450560 0\n"

CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01  Tue Apr  8 12:41:17 UTC 2025\n"

PEERMEM = [
    ((("nccl-log", DISABLED), ("lsmod", NOT_LOADED)), "warn"),
    ((("nccl-log", DISABLED),), "warn"),
    ((("nccl-log", ENABLED), ("lsmod", LOADED)), "pass"),
    ((("nccl-log", ENABLED), ("lsmod", NOT_LOADED)), "pass"),
    ((("lsmod", LOADED),), "pass"),
    ((("lsmod", NOT_LOADED),), "note"),
    ((("lsmod", NOT_LOADED), ("proc-driver-nvidia-version", CLOSED)), "warn"),
    (
        (("dmesg", log("nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client")),),
        "warn",
    ),
    ((("dmesg", log("nv_peer_mem: Unknown symbol ib_unregister_peer_memory_client (err 0)")),), "warn"),
    ((("modprobe", "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument\n"),), "warn"),
    ((("dmesg", log("nvidia-peermem nv_mem_put_pages:77 ERROR detected invalid context, skipping") * 4),), "warn"),
    (
        (("network", json.dumps({"/sys/class/net/lo/operstate": "up\n"})), ("lsmod", "nvidia 56000000 10\n")),
        "skip",
    ),
]


@pytest.mark.parametrize(("captures", "verdict"), PEERMEM)
def test_peermem(captures: tuple[tuple[str, str], ...], verdict: str) -> None:
    assert worst(host(*captures), "rdma.peermem") == verdict


VERSIONS = [
    ("NCCL version 2.21.5+cuda12.4\n" + DISABLED, LOADED, "warn", "note"),
    ("NCCL version 2.27.7+cuda12.9\n" + DISABLED, LOADED, "pass", "warn"),
    ("INFO 11-20 09:00:00 [pynccl.py:69] vLLM is using nccl==2.22.3\n" + DISABLED, LOADED, "warn", "note"),
    ("NCCL version 2.21.5+cuda12.4\n" + DISABLED, NOT_LOADED, "note", "warn"),
    ("NCCL version 2.21.5+cuda12.4\n" + ENABLED, LOADED, "pass", "pass"),
]


@pytest.mark.parametrize(("text", "modules", "verdict", "peermem"), VERSIONS)
def test_an_nccl_that_does_not_know_the_module(text: str, modules: str, verdict: str, peermem: str) -> None:
    bundle = host(("nccl-log", text), ("lsmod", modules))
    assert (worst(bundle, "rdma.nccl-version"), worst(bundle, "rdma.peermem")) == (verdict, peermem)

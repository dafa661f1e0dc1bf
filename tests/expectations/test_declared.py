"""Declarations are refused with place, host, key and hint, or come out typed."""

from __future__ import annotations

from typing import Any

import pytest

from qwenhost.expectations.declared import read_declared
from qwenhost.expectations.resolve import resolve
from qwenhost.expectations.settings import Placement, role_settings
from qwenhost.expectations.tuning import kept
from qwenhost.records.desired import Setting
from qwenhost.records.errors import QwenhostError

BOARD = {"qwenhost_sku": "a100-sxm4-80gb", "qwenhost_gpus": 8}


def vllm(*instances: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return a declaration that serves these instances."""
    model = {"name": "qwen3.5-27b", "path": "/srv/models/qwen3.5-27b"}
    return {"qwenhost_vllm": {"version": "0.32.0", "model": model, "instances": list(instances), **changes}}


MODEL = {"name": "qwen3.5-27b", "path": "/srv/models/qwen3.5-27b"}
ONE = {"name": "a", "gpus": [0, 1], "port": 8000}
MIG = {"qwenhost_mig": {0: "3g.40gb x2"}}

HALF = {"args": {"gpu-memory-utilization": 0.6}}

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"qwenhost_gpu": 8}, "qwenhost_gpu: unknown"),
    ({"qwenhost_gpus": None}, "has no value"),
    ({"qwenhost_hugepages": {"2M": {0: 4, "0": 8}}}, "0 stands twice"),
    ({"qwenhost_mig": {0: "3g.40gb", "0": "7g.80gb"}}, "0 stands twice"),
    ({"qwenhost_mig": {"ALL": "3g.40gb"}}, "'ALL' is neither a GPU's number nor all"),
    ({"qwenhost_mig": {0: "1g.10gb x999999999"}}, "1 to 99 of them"),
    ({"qwenhost_mig": {0: "1g.10gb x0"}}, "1 to 99 of them"),
    ({"qwenhost_driver_version": 580.1}, "580.1 is a number, no version"),
    ({"qwenhost_nvlink_pairs": [[0, 1], [1, 2]]}, "1 stands twice"),
    (BOARD | {"qwenhost_nvlink_pairs": [[0, 9]]}, "no GPU 9"),
    ({"qwenhost_gpus": True}, "qwenhost_gpus"),
    ({"qwenhost_gpus": "8x"}, "qwenhost_gpus"),
    ({"qwenhost_sku": ["a100"]}, "no board"),
    ({"qwenhost_profile": "servin"}, "no profile"),
    ({"qwenhost_sysctl": {"net/core rmem": 1}}, "no kernel setting"),
    ({"qwenhost_sysctl": {"net.core.rmem_max": {}}}, "neither text"),
    ({"qwenhost_hugepages": {"4M": 1}}, "unknown"),
    ({"qwenhost_hugepages": {"2M": {}}}, "names no NUMA node"),
    ({"qwenhost_kernel_args": "iommu=pt"}, "no list"),
    ({"qwenhost_kernel_args": ["iommu=pt quiet"]}, "no single kernel argument"),
    ({"qwenhost_kernel_args": ["a=$(reboot)"]}, "no single kernel argument"),
    ({"qwenhost_kernel_args": ["iommu=pt", "iommu=off"]}, "iommu stands twice"),
    ({"qwenhost_kernel_args": ["hugepages=4"]}, "pages are declared as pools"),
    ({"qwenhost_swap": True}, "is not off"),
    ({"qwenhost_shm": "half"}, "no size"),
    ({"qwenhost_shm": "8M"}, "less than 64M"),
    ({"qwenhost_nvidia_options": {"EnableMSI": 1}}, "no option"),
    ({"qwenhost_nvidia_options": {"NVreg_RmMsg": "a b"}}, "a blank or a quote"),
    ({"qwenhost_driver_version": "new"}, "no version"),
    ({"qwenhost_ecc": "off"}, "neither true nor false"),
    (BOARD | {"qwenhost_mig": {0: "4g.40gb x2"}}, "at most 1 fit"),
    (BOARD | {"qwenhost_mig": {0: "3g.40gb x2, 1g.10gb"}}, "no placement"),
    (BOARD | {"qwenhost_mig": {0: "5g.50gb"}}, "no profile 5g.50gb"),
    (BOARD | {"qwenhost_mig": {8: "7g.80gb"}}, "has 8 GPUs"),
    (vllm(ONE, model={"name": "qwen3.5-7b", "path": "/m"}), "no model qwen3.5-7b"),
    (vllm(ONE, version="main"), "no version"),
    (vllm(ONE, version="0.16.0"), "does not know Qwen3.5"),
    (vllm(ONE, ONE), "used twice"),
    (vllm(ONE | {"args": {"gpu-memory-utilization": 1.5}}), "1.5 is no share"),
    (vllm(ONE | HALF, {"name": "b", "gpus": [1], "port": 8001} | HALF), "take 1.20 of GPU 1"),
    (vllm(ONE | {"gpus": [0, 0]}), "twice"),
    (vllm(ONE, {"name": "b", "gpus": [1], "port": 8001}), "share GPU 1"),
    (vllm(ONE | {"args": {"tensor-parallel-size": 4}}), "parallel sizes 4 on 2 GPUs"),
    (vllm(ONE | {"args": {"tensor_parallel_size": "lots"}}), "no whole number"),
    (BOARD | vllm({"name": "a", "gpus": [8]}), "has 8 GPUs"),
    (BOARD | MIG | vllm({"name": "a", "mig": "0:2"}), "has 2 declared MIG devices"),
    (BOARD | MIG | vllm({"name": "a", "mig": "0:0", "args": {"tensor-parallel-size": 2}}), "MIG"),
    (BOARD | MIG | vllm({"name": "a", "gpus": [0]}), "partitioned"),
    (vllm({"name": "a"}), "either gpus or mig"),
    (vllm(ONE, model=MODEL | {"source": {}}), "source: names 0 sources"),
    (vllm(ONE, model=MODEL | {"source": {"url": "http://m/x", "hub": "Qwen/x"}}), "source: names 2 sources"),
    (vllm(ONE, model=MODEL | {"source": {"url": "m.example.net/x"}}), "no http(s) URL"),
    (vllm(ONE, model=MODEL | {"source": {"url": "https://me:secret@m/x"}}), "no http(s) URL"),
    (vllm(ONE, model=MODEL | {"source": {"hub": "Qwen/Qwen3.5-27B"}}), "revision: goes with hub"),
    (vllm(ONE, model=MODEL | {"source": {"hub": "Qwen/Qwen3.5-27B", "revision": "main"}}), "no commit"),
    (vllm(ONE, model=MODEL | {"source": {"hub": "Qwen3.5-27B", "revision": "0" * 40}}), "no repository"),
    (vllm(ONE, model=MODEL | {"source": {"controller": "models/q"}}), "no absolute path"),
    (vllm(ONE, model=MODEL | {"path": "/q", "source": {"controller": "/q"}}), "needs another path"),
]


@pytest.mark.parametrize(("raw", "told"), REFUSED, ids=[told for _, told in REFUSED])
def test_refused(raw: dict[str, Any], told: str) -> None:
    with pytest.raises(QwenhostError) as caught:
        read_declared(raw, "gpu1", "hosts.yml")
    assert str(caught.value).startswith("hosts.yml: gpu1: qwenhost_")
    assert told in str(caught.value)
    assert caught.value.exit_code == 2


def test_place_and_hint_of_a_typing_error() -> None:
    with pytest.raises(QwenhostError) as caught:
        read_declared({"qwenhost_gpu": 8}, "gpu1", "hosts.yml", {"qwenhost_gpu": "group_vars/all.yml:3"})
    assert str(caught.value).startswith("group_vars/all.yml:3: gpu1: ")
    assert caught.value.hint == "did you mean qwenhost_gpus?"


def test_a_missing_size_names_the_real_ones() -> None:
    with pytest.raises(QwenhostError) as caught:
        read_declared(vllm(ONE, model={"name": "qwen3.5-7b", "path": "/m"}), "h")
    assert "9b" in caught.value.hint and "397b-a17b" in caught.value.hint


def test_shared_gpus_with_declared_shares_are_fine() -> None:
    half = {"gpu-memory-utilization": 0.4}
    pair = [{"name": name, "gpus": [0], "port": port, "args": half} for name, port in (("a", 1), ("b", 2))]
    assert read_declared(vllm(*pair), "h").serving is not None


def test_totals_are_split_over_nodes_with_the_rest_first() -> None:
    want = resolve(read_declared({"qwenhost_hugepages": {"2M": 5}}, "h"), numa_nodes=[0, 1])
    assert [(pool.node, pool.pages) for pool in want.hugepages] == [(0, 3), (1, 2)]


def test_the_board_is_found_by_its_pci_id_only() -> None:
    assert getattr(resolve(read_declared({}, "h"), ["20b2"]).sku, "name", "") == "a100-sxm4-80gb"
    assert resolve(read_declared({}, "h"), ["20b2", "20b0"]).sku is None
    assert resolve(read_declared({}, "h"), ["ffff"]).sku is None


def test_ecc_is_as_declared() -> None:
    assert resolve(read_declared({"qwenhost_ecc": False}, "gpu1")).ecc is False
    assert resolve(read_declared({}, "gpu1")).ecc is None


def test_the_inventory_wins_over_the_profile_and_says_so() -> None:
    raw = {"qwenhost_profile": "serving", "qwenhost_sysctl": {"vm.swappiness": 10}}
    lines = {line.key: line for line in resolve(read_declared(raw, "h")).sysctl}
    assert (lines["vm.swappiness"].value, lines["vm.swappiness"].origin[:9]) == ("10", "inventory")
    assert lines["net.core.rmem_max"].origin.startswith("profiles/serving.yaml")


def test_raise_only_keeps_each_larger_number() -> None:
    line = Setting("k", "4096 131072 134217728", "", "", raise_only=True)
    assert kept(line, "8192\t1\t268435456") == "8192 131072 268435456"
    assert kept(line, None) == line.value


def test_role_arguments_of_an_instance_on_a_mig_device() -> None:
    want = resolve(read_declared(BOARD | MIG | vllm({"name": "a", "mig": "0:1"}), "h"))
    placement = Placement({0: 1}, {1: "32-63"}, {0: ["MIG-x", "MIG-y"]})
    settings = role_settings(want, {}, placement)
    instance = settings["vllm_service_instances"][0]
    assert (instance["mig_uuid"], instance["numa_node"], instance["cpus"]) == ("MIG-y", 1, "32-63")
    assert settings["gpu_partitions_layout"][0] == {"gpu": 0, "mig": True, "instances": ["3g.40gb", "3g.40gb"]}
    assert len(settings["gpu_partitions_layout"]) == 8

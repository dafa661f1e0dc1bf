"""The arguments of the roles: the very values that the checks verify, in the form that roles take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from qwenhost.expectations.gpu_services import gpu_services
from qwenhost.expectations.tuning import tuning_settings
from qwenhost.expectations.vllm_options import environment
from qwenhost.records.desired import Expectations, Serving, VllmInstance

NO_NODE = -1


@dataclass(frozen=True)
class Placement:
    """Where things are on the host, as it was seen.

    `node_of_gpu`: GPU index -> NUMA node. `cpus_of_node`: node -> CPU list such as "0-31".
    `mig_uuids`: GPU index -> UUIDs of its MIG devices in order.
    """

    node_of_gpu: Mapping[int, int] = field(default_factory=dict)
    cpus_of_node: Mapping[int, str] = field(default_factory=dict)
    mig_uuids: Mapping[int, Sequence[str]] = field(default_factory=dict)


def role_settings(want: Expectations, live_sysctl: Mapping[str, str], placement: Placement) -> dict[str, Any]:
    """Return every argument of every role; empty values where nothing is declared."""
    return {
        **tuning_settings(want, live_sysctl),
        "gpu_partitions_layout": [
            {"gpu": layout.gpu, "mig": layout.enabled, "instances": list(layout.profiles)}
            for layout in want.mig or ()
        ],
        "gpu_partitions_services": gpu_services() if want.mig else [],
        "gpu_partitions_drain": want.drain,
        **(_serving_settings(want.serving, placement) if want.serving else {}),
    }


def _serving_settings(serving: Serving, placement: Placement) -> dict[str, Any]:
    return {
        "vllm_service_package": serving.package,
        "vllm_service_version": serving.version,
        "vllm_service_wheels": serving.wheels,
        "vllm_service_index_url": serving.index_url,
        "vllm_service_model_path": serving.model_path,
        "vllm_service_model_name": serving.model_name,
        "vllm_service_model_source": dict(serving.model_source),
        "vllm_service_environment": environment(serving),
        "vllm_service_proxy": dict(serving.proxy),
        "vllm_service_upgrade": dict(serving.upgrade),
        "vllm_service_instances": [_instance(instance, serving, placement) for instance in serving.instances],
    }


def _instance(instance: VllmInstance, serving: Serving, placement: Placement) -> dict[str, Any]:
    bound = serving.package == "vllm"  # the CPU build has no GPU to be near to
    node = _node(instance, placement) if bound else NO_NODE
    return {
        "name": instance.name,
        "port": instance.port,
        "gpus": ",".join(map(str, instance.gpus)),
        "mig_uuid": _mig_uuid(instance, placement),
        "numa_node": node,
        "cpus": placement.cpus_of_node.get(node, ""),
        "options": dict(instance.options),
    }


def _node(instance: VllmInstance, placement: Placement) -> int:
    """Return the NUMA node that all GPUs of the instance share, if they share one."""
    gpus = instance.gpus or (int(instance.mig.split(":")[0]),)
    nodes = {placement.node_of_gpu.get(gpu, NO_NODE) for gpu in gpus}
    return nodes.pop() if len(nodes) == 1 else NO_NODE


def _mig_uuid(instance: VllmInstance, placement: Placement) -> str:
    if not instance.mig:
        return ""
    gpu, position = map(int, instance.mig.split(":"))
    uuids = placement.mig_uuids.get(gpu, ())
    return uuids[position] if position < len(uuids) else ""

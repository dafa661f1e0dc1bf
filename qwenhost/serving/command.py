"""What makes vLLM serve as declared: `vllm serve --config` file, environment, command line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

import yaml

from qwenhost.records.desired import Serving, VllmInstance
from qwenhost.records.errors import BadData

CONFIG_DIR = PurePosixPath("/etc/qwenhost/vllm")
ENVIRONMENT_DIR = PurePosixPath("/opt/qwenhost/vllm")

HOST = "127.0.0.1"
"""vLLM's own default is every interface, and several of its paths need no key."""

SHUTDOWN_TIMEOUT_SECONDS = 30
"""vLLM's own default, 0, cuts off the requests in flight."""

RESERVED = ("api-key", "config", "model", "port", "served-model-name")
"""Written from their own inventory variables; a key in the file would be readable by the service's user."""

PARALLEL = ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size")

BASE_ENVIRONMENT: Mapping[str, str] = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_MEDIA_URL_ALLOW_REDIRECTS": "0",
    "VLLM_NO_USAGE_STATS": "1",
}
"""Nothing is fetched or reported while serving; redirects of media URLs lead into the host's own network."""


def config(serving: Serving, instance: VllmInstance) -> dict[str, object]:
    """Return the config file's content, keys being option names without the dashes.

    Several GPUs without any parallel size become one tensor-parallel group. Raises BadData for options that
    have an inventory variable of their own.
    """
    args = _normal(instance, serving.origin)
    content: dict[str, object] = {
        "model": serving.model_path,
        "served-model-name": [serving.model_name],
        "host": HOST,
        "port": instance.port,
        "shutdown-timeout": SHUTDOWN_TIMEOUT_SECONDS,
    }
    if _has_gpus(serving) and len(instance.gpus) > 1 and not any(name in args for name in PARALLEL):
        content["tensor-parallel-size"] = len(instance.gpus)
    return content | args


def config_text(serving: Serving, instance: VllmInstance) -> str:
    """Return the config file as YAML."""
    return yaml.safe_dump(config(serving, instance), sort_keys=True, allow_unicode=True)


def argv(instance: VllmInstance) -> tuple[str, ...]:
    """Return the command line; the API key is in the environment (VLLM_API_KEY), never here."""
    program = ENVIRONMENT_DIR / "current" / "bin" / "vllm"
    return (str(program), "serve", "--config", str(CONFIG_DIR / f"{instance.name}.yaml"))


def environment(serving: Serving, instance: VllmInstance, mig_uuid: str = "") -> dict[str, str]:
    """Return the variables of one instance, without the key; the inventory's win over those set here.

    `mig_uuid` is the UUID of the MIG device that the inventory names by its place.
    """
    devices = mig_uuid or ",".join(str(gpu) for gpu in instance.gpus)
    visible = {"CUDA_VISIBLE_DEVICES": devices} if _has_gpus(serving) and devices else {}
    return {**BASE_ENVIRONMENT, **visible, **serving.environment}


def _has_gpus(serving: Serving) -> bool:
    """The CPU build would take a parallel size for a number of processor groups."""
    return serving.package == "vllm"


def _normal(instance: VllmInstance, origin: str) -> dict[str, object]:
    """Options with dashes, as vLLM compares them; null means: not given."""
    args = {name.replace("_", "-"): value for name, value in instance.args.items() if value is not None}
    for name in RESERVED:
        if name in args:
            raise BadData(
                f"{origin or 'qwenhost_vllm'}: instance {instance.name}: args.{name} is not allowed",
                hint="model, port and api_key_file are variables of their own",
            )
    return args

"""What makes vLLM serve as declared: `vllm serve --config` file, environment, command line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

import yaml

from qwenhost.expectations.vllm_options import options
from qwenhost.records.desired import Serving, VllmInstance

CONFIG_DIR = PurePosixPath("/etc/qwenhost/vllm")
ENVIRONMENT_DIR = PurePosixPath("/opt/qwenhost/vllm")

BASE_ENVIRONMENT: Mapping[str, str] = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_MEDIA_URL_ALLOW_REDIRECTS": "0",
    "VLLM_NO_USAGE_STATS": "1",
}
"""Nothing is fetched or reported while serving; redirects of media URLs lead into the host's own network."""


def config_text(serving: Serving, instance: VllmInstance) -> str:
    """Return the content of the config file as YAML; its keys are option names without the dashes."""
    return yaml.safe_dump(options(serving, instance), sort_keys=True, allow_unicode=True)


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

"""The content of each instance's `vllm serve --config` file, complete: the role only writes it down."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from qwenhost.records.desired import Serving, VllmInstance

HOST = "127.0.0.1"
"""vLLM's own default is every interface, and several of its paths need no key."""

SHUTDOWN_TIMEOUT_SECONDS = 30
"""vLLM's own default, 0, cuts off the requests in flight."""

BASE_ENVIRONMENT: Mapping[str, str] = {
    "DO_NOT_TRACK": "1",
    "GLOO_SOCKET_IFNAME": "lo",
    "HF_HUB_OFFLINE": "1",
    "NCCL_SOCKET_IFNAME": "lo",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_HOST_IP": "127.0.0.1",
    "VLLM_MEDIA_URL_ALLOW_REDIRECTS": "0",
    "VLLM_NO_USAGE_STATS": "1",
}
"""Nothing is fetched or reported while serving; redirects of media URLs lead into the host's own network.

The processes of an instance talk to each other on a dozen ports that ask for no key; without the three addresses
vLLM 0.32 opens them on the address of the host's name, where the network reaches them.
"""

OPEN_DOORS: Mapping[str, str] = {
    "VLLM_ALLOW_INSECURE_SERIALIZATION": "whoever reaches an internal port could run code",
    "VLLM_SERVER_DEV_MODE": "anybody could put the model to sleep or run code in its workers, without a key",
}
"""Variables that an instance is never given -> why."""

RESERVED = ("api-key", "config", "model", "port", "served-model-name")
"""Written from their own inventory variables; a key in the file would be readable by the service's user."""

PARALLEL = ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size")


NEEDED = (
    *("model", "served-model-name", "host", "port", "ssl-certfile", "ssl-keyfile", *PARALLEL),
    *("tokenizer", "tokenizer-mode", "load-format", "hf-config-path", "hf-overrides", "quantization"),
    *("trust-remote-code", "chat-template"),
)
"""Without these another model would be served, or at another place, or none; all else has a default of vLLM's."""


def with_options(serving: Serving) -> Serving:
    """Return the declaration with the config file's content of every instance."""
    instances = tuple(replace(instance, options=options(serving, instance)) for instance in serving.instances)
    return replace(serving, instances=instances)


def options(serving: Serving, instance: VllmInstance) -> dict[str, object]:
    """Return the options by name without the dashes.

    Several GPUs without any parallel size become one tensor-parallel group.
    """
    args = normal(instance.args)
    content: dict[str, object] = {
        "model": serving.model_path,
        "served-model-name": [serving.model_name],
        "host": HOST,
        "port": instance.port,
        "shutdown-timeout": SHUTDOWN_TIMEOUT_SECONDS,
    }
    has_gpus = serving.package == "vllm"  # the CPU build takes a parallel size for a number of processor groups
    if has_gpus and len(instance.gpus) > 1 and not any(name in args for name in PARALLEL):
        content["tensor-parallel-size"] = len(instance.gpus)
    return content | args


def defaults(own: Mapping[str, object], keep: Collection[str] = ()) -> dict[str, object]:
    """Return what is left of an instance's options where vLLM's defaults decide all but those in `keep`."""
    return {name: value for name, value in own.items() if name in NEEDED or name in keep}


def environment(serving: Serving) -> dict[str, str]:
    """Return the variables that all instances share, without the key; the inventory's win over those set here."""
    return {**BASE_ENVIRONMENT, **serving.environment}


def normal(args: Mapping[str, object]) -> dict[str, object]:
    """Return options with dashes, as vLLM compares them; null means: not given."""
    return {name.replace("_", "-"): value for name, value in args.items() if value is not None}

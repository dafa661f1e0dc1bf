"""Takes bare-metal NVIDIA A100 hosts from racked to serving Qwen3.5 with vLLM, proven."""

__version__ = "0.1.0"

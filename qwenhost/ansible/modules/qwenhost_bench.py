"""Documentation of the action plugin of this name; the load is made on the host itself."""

DOCUMENTATION = r"""
---
module: qwenhost_bench
short_description: Measure every declared vLLM instance of a host, and hold it against an earlier measure
description:
  - Runs C(vllm bench serve) on the host, over loopback; the API key is read there and never leaves it.
  - A burst that is not counted comes first.
  - Fails the host where the throughput of output tokens fell by more than O(throughput_drop_percent).
options:
  concurrency:
    description: Requests at a time.
    type: int
    required: true
  input_tokens:
    description: Tokens of each prompt.
    type: int
    required: true
  output_tokens:
    description: Tokens of each answer.
    type: int
    required: true
  baseline:
    description: RV(ladders) of an earlier run of this module; none compares with nothing.
    type: list
    elements: dict
    default: []
  throughput_drop_percent:
    description: How much of the baseline's throughput may be lost.
    type: int
    default: 100
author: qwenhost
"""

RETURN = r"""
ladders:
  description: The measures, as in the versioned JSON of C(qwenhost bench).
  type: list
  returned: always
"""

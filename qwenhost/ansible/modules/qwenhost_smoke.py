"""Documentation of the action plugin of this name; the requests are sent from the host itself."""

DOCUMENTATION = r"""
---
module: qwenhost_smoke
short_description: Ask every declared vLLM instance of a host questions and check the answers
description:
  - Health, served name, a right answer, streaming, thinking, limits, refusal of a wrong key, metrics.
  - The requests run on the host, over loopback; the API key is read there and never leaves it.
options:
  full:
    description: >-
      Also ask what loads the service for a while: longest context, a burst of requests, tool calls, structured
      output, prefix cache, bad input.
    type: bool
    default: false
author: qwenhost
"""

RETURN = r"""
report:
  description: Findings of the smoke test, as in the versioned JSON report.
  type: list
  returned: always
"""

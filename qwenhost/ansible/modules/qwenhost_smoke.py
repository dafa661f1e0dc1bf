"""Documentation of the action plugin of this name; the requests are sent from the host itself."""

DOCUMENTATION = r"""
---
module: qwenhost_smoke
short_description: Ask every declared vLLM instance of a host a question and check the answer
description:
  - Health, served name, a completion with a content check, streaming, refusal of a wrong key, metrics.
  - The requests run on the host, over loopback; the API key is read there and never leaves it.
options: {}
author: qwenhost
"""

RETURN = r"""
report:
  description: Findings of the smoke test, as in the versioned JSON report.
  type: list
  returned: always
"""

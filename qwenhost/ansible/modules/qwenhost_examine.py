"""Documentation of the action plugin of this name; the work is done on the controller."""

DOCUMENTATION = r"""
---
module: qwenhost_examine
short_description: Examine a GPU host against what its inventory declares
description:
  - Sends a read-only probe over Ansible's own connection, judges its answers on the controller,
    and returns findings, the roles that would put right what does not hold, and the arguments of those roles.
  - Changes nothing; runs in check mode as well.
options:
  stop_at_blockers:
    description: Fail the host when something failed, or could not be seen, that no role can put right.
    type: bool
    default: false
  reboot:
    description:
      - The host may be rebooted. What a reboot puts right does not stop it then; RV(reboot_for) has it.
      - Otherwise each is a warning, and a failure or something unseen among it stops the host.
    type: bool
    default: false
  only:
    description: Return only these of the roles that are needed; empty for all.
    type: list
    elements: str
    default: []
  require:
    description:
      - V(nothing) only reports. V(no-failures) fails the host on any failed finding.
        V(all-seen) also on anything that applies and could not be seen.
    type: str
    choices: [nothing, no-failures, all-seen]
    default: nothing
author: qwenhost
"""

RETURN = r"""
roles:
  description: Roles to run, in order.
  type: list
  returned: always
reboot_for:
  description: Why the host is to be rebooted; empty where it may not be.
  type: list
  returned: always
failures:
  description: What failed, one text per finding.
  type: list
  returned: always
settings:
  description: Arguments of the roles, resolved from sku, profile and inventory.
  type: dict
  returned: always
report:
  description: The host's part of the versioned JSON report.
  type: dict
  returned: always
"""

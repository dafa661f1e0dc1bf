"""Documentation of the action plugin of this name; the act runs on the host, from an archive sent to it."""

DOCUMENTATION = r"""
---
module: qwenhost_run
short_description: Begin, end or undo a run on a GPU host
description:
  - A run holds the host from V(begin) to V(end), so that no other run changes it meanwhile.
  - V(begin) keeps the files, live settings, running units and MIG layout that qwenhost owns, once per run.
  - V(rollback) restores what the last run found, or the run named by O(to) and all later ones.
  - Supports check mode and diff mode.
options:
  act:
    description: What to do.
    type: str
    required: true
    choices: [begin, end, rollback]
  sysctl:
    description: Kernel settings that the run may change.
    type: list
    elements: str
    default: []
  to:
    description: Run to go back behind; empty for the last one.
    type: str
    default: ""
"""

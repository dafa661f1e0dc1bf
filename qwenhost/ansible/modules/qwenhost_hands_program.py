"""Documentation of the action plugin of this name; the archive is packed on the controller."""

DOCUMENTATION = r"""
---
module: qwenhost_hands_program
short_description: Install the archive of host-side acts, for the units that use it at boot
description:
  - Packs the archive on the controller and copies it where it differs.
  - Supports check mode and diff mode.
options:
  dest:
    description: Where to put it; its folder is created.
    type: path
    required: true
author: qwenhost
"""

EXAMPLES = r"""
- name: Install the program
  qwenhost_hands_program:
    dest: /usr/local/lib/qwenhost/hands.pyz
"""

RETURN = r"""
checksum:
  description: SHA-1 of the archive.
  type: str
  returned: always
"""

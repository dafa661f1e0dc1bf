"""Where the playbooks, roles and templates are: in the checkout, or inside an installed wheel."""

from __future__ import annotations

from pathlib import Path

from qwenhost.records.errors import QwenhostError

PACKAGE = Path(__file__).resolve().parents[1]


def content_dir() -> Path:
    """Return the folder that holds ansible.cfg, playbooks/, roles/ and templates/."""
    for folder in (PACKAGE / "_ansible", PACKAGE.parent):
        if (folder / "playbooks" / "provision.yml").is_file():
            return folder
    raise QwenhostError("playbooks not found beside the package", hint="reinstall qwenhost")

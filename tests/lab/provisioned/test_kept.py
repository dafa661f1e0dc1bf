"""What a run that made hosts serve leaves behind on the controller: everything but the key."""

from __future__ import annotations

import re
from pathlib import Path

from tests.lab.provisioned.conftest import Provisioned

KEY = "/etc/qwenhost/vllm/api_key"


def test_no_key_is_in_what_is_kept_shown_or_logged(provisioned: Provisioned) -> None:
    first = provisioned.first
    found = re.search(r"report and events of this run: (\S+)", first.messages)
    assert found, first.messages
    kept = {path.name: path.read_text() for path in Path(found[1]).iterdir()}
    assert kept.keys() == {"report.txt", "report.json", "report.html", "events.jsonl"}
    said = {**kept, "stdout": first.output, "stderr": first.messages}
    for host in ("lab1", "lab2"):
        key = provisioned.on(host, f"cat {KEY}")
        assert len(key) == 43
        assert [name for name, content in said.items() if key in content] == []
        assert provisioned.on(host, f"journalctl --no-pager | grep -cF -f {KEY} || true") == "0"

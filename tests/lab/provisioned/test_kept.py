"""What a run that made hosts serve shows and leaves behind, here and there: everything but the secrets."""

from __future__ import annotations

import re
from pathlib import Path

from tests.lab.provisioned.conftest import Provisioned
from tests.lab.provisioned.planted import ANSIBLE_FILES, API_KEY, HOST, SECRETS, secrets_in

KEY = "/etc/qwenhost/vllm/api_key"

LEFT = "grep -rlF -f /dev/stdin /etc /var/lib/qwenhost /var/log /root /home /tmp /usr/local/lib/qwenhost"


def test_no_secret_is_in_what_is_kept_shown_or_logged(provisioned: Provisioned, tmp_path: Path) -> None:
    first = provisioned.first
    found = re.search(r"report and events of this run: (\S+)", first.messages)
    assert found, first.messages
    kept = {path.name: path.read_bytes() for path in Path(found[1]).iterdir()}
    assert kept.keys() == {"report.txt", "report.json", "report.html", "events.jsonl"}
    bundle = tmp_path / "bundle.json"
    declared = (HOST, "-i", str(provisioned.inventory))
    captured = provisioned.qwenhost("capture", *declared, "--identities", "-o", str(bundle))
    preview = provisioned.qwenhost("--debug", "provision", str(provisioned.inventory), "--check", "--diff", "-v")
    assert captured.code == 0 and preview.code == 0
    said = {
        **kept,
        **{str(path): path.read_bytes() for path in ANSIBLE_FILES.rglob("*") if path.is_file()},
        "bundle": bundle.read_bytes(),
        **{
            f"{name} of {what}": text.encode()
            for what, done in (("the run", first), ("capture", captured), ("a preview", preview))
            for name, text in (("stdout", done.output), ("stderr", done.messages))
        },
    }
    assert {name: secrets_in(content) for name, content in said.items() if secrets_in(content)} == {}


def test_no_process_had_one_while_the_hosts_were_set_up(provisioned: Provisioned) -> None:
    assert provisioned.seen == set()


def test_hosts_have_the_key_in_its_file_alone(provisioned: Provisioned) -> None:
    assert provisioned.on(HOST, f"cat {KEY}; stat -c %a:%U {KEY}") == f"{API_KEY}\n600:root"
    made = provisioned.on("lab2", f"cat {KEY}")
    assert len(made) >= 43
    for host, secrets in ((HOST, SECRETS), ("lab2", (made,))):
        lines = "\n".join(secrets)
        assert provisioned.on(host, f"{LEFT} <<X\n{lines}\nX") == KEY
        assert provisioned.on(host, f"journalctl --no-pager | grep -cF -f <(echo '{lines}') || true") == "0"

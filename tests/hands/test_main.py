"""Exit states and the form of answers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hands.conftest import Hands


@pytest.mark.parametrize(
    ("act", "request_text", "told"),
    [
        ("thp", "no json", "stdin: not a request"),
        ("thp", "[]", "a JSON object is wanted"),
        ("thp", "{}", "'mode' is missing"),
        ("thp", '{"mode": "sometimes"}', "is none of always, madvise, never"),
        ("sysctl", '{"values": {"../etc": 1}}', "not a kernel setting"),
        ("hugepages", '{"pools": [{"node": "x", "size_kib": 1, "pages": 1}]}', "not a request"),
        ("mig", '{"layout": [{"gpu": "all", "mig": true}]}', "gpu is an index"),
        ("mig", '{"layout": [{"gpu": 0, "mig": true, "instances": ["half"]}]}', "not a MIG profile name"),
        ("mig", '{"layout": [{"gpu": 0, "mig": false, "instances": ["3g.40gb"]}]}', "need MIG mode"),
        ("mig", '{"layout": [{"gpu": 0, "mig": true}, {"gpu": 0, "mig": true}]}', "named twice"),
        ("wait-gpu", '{"free_fraction": 90}', "free_fraction is above 0"),
        ("http", '{"base_url": "http://192.0.2.1/", "path": "/"}', "not a loopback address"),
    ],
)
def test_what_is_no_request_ends_with_2(hands: Hands, act: str, request_text: str, told: str) -> None:
    ran = hands(act, request_text)
    assert ran.status == 2
    assert told in ran.answer["error"]
    assert "\n" not in ran.answer["error"]


def test_unknown_act_ends_with_2(archive: Path) -> None:
    command = [sys.executable, archive, "juggle"]
    ran = subprocess.run(command, input="{}", capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "juggle" in ran.stderr


def test_request_from_a_config_file(hands: Hands, tmp_path: Path) -> None:
    config = tmp_path / "thp.json"
    config.write_text(json.dumps({"mode": "never"}))
    assert hands("thp", "", "--config", str(config)).answer["after"] == ["never"]


def test_missing_config_file_is_named(hands: Hands) -> None:
    ran = hands("mig", "", "--config", "/nonexistent/mig.json")
    assert ran.status == 2
    assert ran.answer["error"].startswith("/nonexistent/mig.json: not a request: No such file")

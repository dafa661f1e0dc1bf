"""The API key: given or made once, private, and in no answer."""

from __future__ import annotations

import base64
import json
import stat
from pathlib import Path

from tests.hands.conftest import Hands

PATH = "etc/qwenhost/vllm/api_key"
GIVEN, OTHER = "sk-given-0123456789", "sk-other-9876543210"


def test_a_given_key_is_written_once_and_told_to_nobody(hands: Hands, root: Path) -> None:
    assert hands("api-key", {"key": GIVEN}, "--check").answer["changed"]
    assert not (root / PATH).exists()
    first, second = hands("api-key", {"key": GIVEN + "\n"}), hands("api-key", {"key": GIVEN})
    assert (first.answer["changed"], second.answer["changed"]) == (True, False)
    assert (root / PATH).read_text() == GIVEN + "\n"
    assert stat.S_IMODE((root / PATH).stat().st_mode) == 0o600
    rotated = hands("api-key", {"key": OTHER})
    assert rotated.answer["changed"] and (root / PATH).read_text() == OTHER + "\n"
    assert not any(key in json.dumps(told.answer) for told in (first, second, rotated) for key in (GIVEN, OTHER))


def test_one_is_made_where_there_is_none_and_kept_where_there_is_one(hands: Hands, root: Path) -> None:
    assert hands("api-key", {"key": ""}).answer["changed"]
    made = (root / PATH).read_text()
    assert len(made.strip()) >= 43
    assert not hands("api-key", {"key": ""}).answer["changed"]
    (root / PATH).chmod(0o644)
    assert hands("api-key", {"key": ""}).answer["changed"]
    assert (root / PATH).read_text() == made and stat.S_IMODE((root / PATH).stat().st_mode) == 0o600


def test_no_run_keeps_a_copy_and_no_rollback_brings_one_back(hands: Hands, root: Path) -> None:
    run = {"controller": "ann@desk process 10 of 1000", "run": "one"}
    hands("api-key", {"key": GIVEN})
    hands("begin", {**run, "sysctl": []})
    kept = (root / "var/lib/qwenhost/runs/one.json").read_text()
    assert GIVEN not in kept and base64.b64encode(GIVEN.encode()).decode()[:16] not in kept
    hands("api-key", {"key": OTHER})
    undone = hands("rollback", {**run, "to": ""})
    assert undone.status == 0, undone.answer
    assert f"file {PATH} 0600, whose content stays" in undone.answer["after"]
    assert (root / PATH).read_text() == OTHER + "\n"


def test_a_key_that_was_not_there_before_a_run_goes_with_it(hands: Hands, root: Path) -> None:
    run = {"controller": "ann@desk process 10 of 1000", "run": "one"}
    hands("begin", {**run, "sysctl": []})
    hands("api-key", {"key": ""})
    assert hands("rollback", {**run, "to": ""}).status == 0
    assert not (root / PATH).exists()

"""The API key that clients have to send."""

from __future__ import annotations

from collections.abc import Iterator

from qwenhost.checks.declare import Judgement, check, judged, skip
from qwenhost.checks.vllm import NOT_SERVED, SERVED, serves
from qwenhost.facts.vllm_key import HostKey
from qwenhost.records.desired import Expectations

SUBJECT = "api_key"


@check("vllm.api-key", remedy=SERVED, applies=serves, skipped=NOT_SERVED, consequence_of=("vllm.installed",))
def api_key(found: HostKey | None, want: Expectations) -> Iterator[Judgement]:
    """The host holds the key of the inventory's api_key_file.

    A key that was changed in one place only locks clients out, or leaves the old one good for whoever has it.
    Eight digits of a sum are compared; neither key is read into a report.
    """
    declared = want.serving.api_key_digest if want.serving else ""
    if not declared:
        yield skip(SUBJECT, "no key is declared that can be compared: the host made its own, or it is in a vault")
        return
    yield judged(
        SUBJECT,
        None if found is None else found.digest == declared,
        observed="not seen"
        if found is None
        else "the declared key"
        if found.digest == declared
        else "another key",
        expected="the declared key",
        origin="inventory: qwenhost_vllm.api_key_file",
    )

"""Declared partitions: what a role, a reboot or nobody has to do about each deviation."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from qwenhost.checks.engine import examine
from qwenhost.checks.mig import next_boot
from qwenhost.facts.mig_at_boot import mig_at_boot
from qwenhost.plan import make_plan
from qwenhost.records.bundle import Bundle, Capture
from qwenhost.records.desired import Expectations, MigLayout
from qwenhost.records.errors import Unparsable
from qwenhost.records.finding import Verdict
from tests.checks.conftest import edited, of, only

WHOLE = tuple(MigLayout(gpu, False, (), "test") for gpu in range(8))
HALVES = (MigLayout(0, True, ("3g.40gb", "3g.40gb"), "test"), *WHOLE[1:])
RECORD = '{"/run/qwenhost/drained.json": "{\\"units\\": [\\"nvidia-dcgm.service\\"]}", '


def test_stopped_services_are_named_and_started_by_the_role(healthy: Bundle, want: Expectations) -> None:
    managed = replace(want, mig=WHOLE)
    assert [finding.verdict for finding in of(examine(healthy, managed), "mig.drained")] == [Verdict.PASS]
    left = edited(healthy, ("drained-services", "{", RECORD))
    (finding,) = of(examine(left, managed), "mig.drained")
    assert (finding.subject, finding.verdict) == ("nvidia-dcgm.service", Verdict.FAIL)
    assert make_plan([finding]).roles == ("gpu_partitions",)


@pytest.mark.parametrize(
    "record", [RECORD.replace("units", "unit"), '{"/run/qwenhost/drained.json!": "EACCES", ', "{}"]
)
def test_a_record_that_was_not_read_is_no_record_of_nothing(
    healthy: Bundle, want: Expectations, record: str
) -> None:
    unread = edited(healthy, ("drained-services", "{", record))
    (finding,) = of(examine(unread, replace(want, mig=WHOLE)), "mig.drained")
    assert finding.verdict is Verdict.UNKNOWN


def test_not_asked_where_nothing_is_declared(healthy: Bundle, want: Expectations) -> None:
    assert [finding.verdict for finding in of(examine(healthy, want), "mig.drained")] == [Verdict.SKIP]


def modes(healthy: Bundle, current: str, pending: str) -> Bundle:
    text = healthy.of("nvidia-smi-q")[0].text
    name = next(line for line in text.splitlines() if line.strip().startswith("MIG Mode"))
    asked = only(healthy, "nvidia-smi-q")
    section = text[text.index(name) :].split("\n", 3)
    changed = [
        section[0],
        *(
            line[: line.index(":")] + f": {mode}"
            for line, mode in zip(section[1:3], (current, pending), strict=True)
        ),
    ]
    return replace(
        asked,
        captures=tuple(
            replace(item, text=item.text.replace("\n".join(section[:3]), "\n".join(changed), 1))
            for item in asked.captures
        ),
    )


@pytest.mark.parametrize(
    ("current", "pending", "kind"), [("Disabled", "Disabled", "role"), ("Disabled", "Enabled", "reboot")]
)
def test_a_mode_that_was_set_waits_for_a_reboot_and_not_for_the_role(
    healthy: Bundle, want: Expectations, current: str, pending: str, kind: str
) -> None:
    findings = of(examine(modes(healthy, current, pending), replace(want, mig=HALVES)), "mig.mode")
    first = next(finding for finding in findings if "gpu0" in finding.subject)
    assert (first.verdict, first.remedy.kind) == (Verdict.FAIL, kind)


def at_boot(*layout: tuple[int, bool, list[str]], unit: str = "UW") -> str:
    """Return the listing of the boot unit's files; U: the unit is there, W: it is wanted."""
    config = {"layout": [{"gpu": gpu, "mig": mig, "instances": names} for gpu, mig, names in layout]}
    files = {"/proc/version": "Linux version 5.15.0"}
    folder = "/etc/systemd/system"
    files |= {"/etc/qwenhost/mig.json": json.dumps(config)} if layout else {}
    files |= {f"{folder}/qwenhost-mig.service": ""} if "U" in unit else {}
    files |= {f"{folder}/multi-user.target.wants/qwenhost-mig.service": ""} if "W" in unit else {}
    return json.dumps(files)


KEPT = [(0, True, ["3g.40gb", "3g.40gb"]), *((gpu, False, list[str]()) for gpu in range(1, 8))]

BOOTS = [
    (HALVES, at_boot(*KEPT), {}),
    (HALVES, at_boot(*KEPT, unit="U"), {"qwenhost-mig.service": "not enabled"}),
    (HALVES, at_boot(*KEPT, unit=""), {"qwenhost-mig.service": "not enabled"}),
    (HALVES, at_boot((0, True, ["7g.80gb"]), *KEPT[1:]), {"gpu0": "7g.80gb x1"}),
    (HALVES, at_boot(*KEPT[1:]), {"gpu0": "nothing"}),
    (WHOLE, at_boot(unit=""), {}),
    (WHOLE, at_boot(KEPT[0]), {"gpu0": "3g.40gb x2", "qwenhost-mig.service": "enabled"}),
]


@pytest.mark.parametrize(("layouts", "files", "wrong"), BOOTS)
def test_what_the_next_boot_makes(
    healthy: Bundle, want: Expectations, layouts: tuple[MigLayout, ...], files: str, wrong: dict[str, str]
) -> None:
    """Judged by itself: what is in force now is another check's."""
    judgements = list(next_boot(mig_at_boot(Capture("mig-at-boot", "ok", files)), replace(want, mig=layouts)))
    assert judgements
    assert {one.subject: one.observed for one in judgements if one.verdict is Verdict.FAIL} == wrong


def test_a_layout_file_that_nobody_wrote_is_not_judged() -> None:
    broken = at_boot(*KEPT).replace("layout", "layouts")
    with pytest.raises(Unparsable):
        mig_at_boot(Capture("mig-at-boot", "ok", broken))

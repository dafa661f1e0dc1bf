"""The versioned JSON report and its schema."""

from __future__ import annotations

import importlib.resources
import json
from dataclasses import fields
from typing import Any

import jsonschema
import pytest

from qwenhost.records.bundle import Bundle
from qwenhost.records.finding import Change, Finding, HostReport, Remedy, Verdict, by_role
from qwenhost.records.since import Past, Since
from qwenhost.reports import json_report


def schema() -> dict[str, Any]:
    """Return the published schema."""
    text = importlib.resources.files("qwenhost.data").joinpath("schemas", "doctor.json").read_text()
    found: dict[str, Any] = json.loads(text)
    return found


def document(*reports: HostReport) -> dict[str, Any]:
    """Return the report as a reader of JSON sees it."""
    found: dict[str, Any] = json.loads(json_report.render(reports))
    return found


FULL = HostReport(
    "lab1",
    "a100-sxm4-80gb",
    tuple(
        Finding("host.sysctl", "net.core.rmem_max", verdict, "1", "2", "why", by_role("host_tuning"), "profile")
        for verdict in Verdict
    ),
    changes=(Change("Write", "host_tuning", "a -> b"),),
    unrecognised=("notes.txt",),
    notes={"user_id": "0"},
    bundle=Bundle("lab1", (), captured_at="2026-12-02T18:00:00Z"),
    since=Since(
        "2026-12-01T18:00:00Z",
        new=(Past("a.b", "gpu3", "fail", "2026-12-02T18:00:00Z", "2026-12-02T18:00:00Z"),),
        unchanged=(
            Past("a.c", "host", "fail", "2026-12-01T18:00:00Z", "2026-12-02T18:00:00Z", 2, "warn", "reboot"),
        ),
    ),
)


@pytest.mark.parametrize("reports", [(), (FULL,), (HostReport("h", "", (), error="h: no", hint="up?"), FULL)])
def test_reports_follow_the_schema(reports: tuple[HostReport, ...]) -> None:
    jsonschema.Draft202012Validator(schema()).validate(document(*reports))


def test_the_schema_refuses_what_it_does_not_know() -> None:
    broken = document(FULL)
    broken["hosts"][0]["findings"][0]["verdict"] = "fine"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, schema())


def test_the_schema_names_every_field_of_the_records() -> None:
    definitions = schema()["$defs"]
    for record, name in ((Finding, "finding"), (Change, "change")):
        assert set(definitions[name]["properties"]) == {field.name for field in fields(record)}
    assert set(definitions["finding"]["properties"]["remedy"]["properties"]) == {f.name for f in fields(Remedy)}
    assert set(definitions["since"]["properties"]) == {field.name for field in fields(Since)}
    assert set(definitions["past"]["properties"]) == set(json_report.PAST_FIELDS)
    assert definitions["verdict"]["enum"] == [verdict.value for verdict in Verdict]


def test_the_summary_counts_the_findings() -> None:
    assert document(FULL)["hosts"][0]["summary"] == {verdict.value: 1 for verdict in Verdict}


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())


def test_without_an_earlier_run_nothing_is_said_of_changes() -> None:
    assert document(HostReport("h", "", ()))["hosts"][0]["since"] is None
    assert [past["subject"] for past in document(FULL)["hosts"][0]["since"]["new"]] == ["gpu3"]

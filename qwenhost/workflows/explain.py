"""What a check asks, why, what it reads and where it stands, and what it holds a host to."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from functools import cache
from types import NoneType
from typing import Any, get_args, get_type_hints

from qwenhost.checks.declare import Check, checks
from qwenhost.expectations.skus import NAMING, skus
from qwenhost.facts import registry
from qwenhost.facts.gpus import NVML, QUERY, Gpu, Gpus
from qwenhost.facts.smi.keys import KEYS
from qwenhost.probe import nvml_fields
from qwenhost.records.bundle import Capture
from qwenhost.records.desired import Expectations, Sku
from qwenhost.records.errors import QwenhostError
from qwenhost.records.explanation import Explanation, Reading, Threshold
from qwenhost.records.finding import NO_REMEDY
from qwenhost.records.source import Source
from qwenhost.workflows.code_names import attributes_of, data_files_of, names_of
from qwenhost.workflows.smoke.catalogue import HEALTH, QUESTIONS, Question

GPU_FIELDS = {field.name for field in fields(Gpu)} - {"index", "bus_id", "name", "lost", "device_id"}
"""What is judged of a GPU; the others say which one it is."""

FIGURES = {field.name for field in fields(Sku)} - NAMING - {"name", "origin", "pci_device_ids"}

DECLARATIONS = {field.name for field in fields(Expectations) if not field.name.endswith("_origin")} - {
    "sku",
    "peers",
    "trials",
}

SAMPLES: tuple[Any, ...] = (1, "0000:07:00.0", "0x20b210de", [1])
"""Values of every type that an NVML field has."""


def explain(check_id: str) -> Explanation:
    """Return what is known of a check. Raises QwenhostError for an id that does not exist."""
    known, asked = checks(), {question.id: question for question in (HEALTH, *QUESTIONS)}
    if check_id in asked:
        return _asked_of_service(asked[check_id])
    if check_id not in known:
        near = difflib.get_close_matches(check_id, [*known, *asked], n=3) or list(known)[:3]
        raise QwenhostError(
            f"there is no check {check_id}", hint=f"qwenhost checks lists all, such as {', '.join(near)}"
        )
    return explained(known[check_id])


def _asked_of_service(question: Question) -> Explanation:
    """Return what is known of a question of the smoke test, which is asked of a service and not of a host."""
    return Explanation(
        id=question.id,
        why=question.why,
        remedy=NO_REMEDY,
        consequence_of=() if question is HEALTH else (HEALTH.id,),
        readings=(),
        recognised=(),
        thresholds=(),
        declared=(),
        data=data_files_of(question.look),
    )


def explained(check: Check) -> Explanation:
    """Return what is known of a check, all of it taken from the check, its facts and the data."""
    facts, names = facts_of(check), names_of(check.judge)
    sources = _sources(facts)
    return Explanation(
        id=check.id,
        why=check.why,
        remedy=check.remedy,
        consequence_of=check.consequence_of,
        readings=tuple(_reading(source, facts, names) for source in sources if source.live),
        recognised=tuple(source.name for source in sources if not source.live),
        thresholds=tuple(_threshold(name) for name in sorted(FIGURES & names) if "sku" in names),
        declared=tuple(sorted(DECLARATIONS & attributes_of("want", check.judge))),
        data=data_files_of(check.judge),
    )


def facts_of(check: Check) -> tuple[type[Any], ...]:
    """Return the facts that a check needs or can use: the types of its parameters that parsers produce."""
    hints = {name: hint for name, hint in get_type_hints(check.judge).items() if name != "return"}
    produced = {parser.fact for parser in registry.parsers()}
    parts = [part for hint in hints.values() for part in (get_args(hint) or (hint,)) if part is not NoneType]
    return tuple(part for part in parts if part in produced)


def _sources(facts: Iterable[type[Any]]) -> tuple[Source, ...]:
    """Return the sources of facts, the most trusted one first."""
    wanted = set(facts)
    found = {parser.source.name: parser.source for parser in registry.parsers() if parser.fact in wanted}
    return tuple(found.values())


def _reading(source: Source, facts: Iterable[type[Any]], names: frozenset[str]) -> Reading:
    used = sorted(GPU_FIELDS & names) if Gpus in facts else []
    if source == NVML:
        return Reading(source, tuple(dict.fromkeys(_nvml()[field] for field in used if field in _nvml())))
    if source == QUERY:
        return Reading(source, tuple(_place(field) for field in used if field in KEYS))
    return Reading(source)


def _place(field: str) -> str:
    """Return the newest path of a field in `nvidia-smi -q`, heading by heading."""
    _, paths = KEYS[field]
    return paths[0].replace("/", " > ")


@cache
def _nvml() -> Mapping[str, str]:
    """Return the NVML function behind each field of a GPU, found by giving the parser one value at a time."""
    return {field: call for name, call in _calls().items() for field in _fed_by(name)}


def _calls() -> Mapping[str, str]:
    tables = (nvml_fields.SIMPLE, nvml_fields.PARTS, nvml_fields.CODED)
    calls = {name: call if isinstance(call, str) else call[0] for table in tables for name, call in table.items()}
    values = {name: f"nvmlDeviceGetFieldValues({number})" for name, number in nvml_fields.FIELD_VALUES.items()}
    return {**calls, **values}


def _fed_by(name: str) -> Iterator[str]:
    """Yield the fields of a GPU that an NVML value fills."""
    for sample in SAMPLES:
        try:
            gpu = _gpu_with({name: sample})
        except (ValueError, TypeError, AttributeError):
            continue
        yield from (field for field in GPU_FIELDS if getattr(gpu, field) is not None)


def _gpu_with(values: Mapping[str, Any]) -> Gpu:
    text = json.dumps({"system": {}, "init": "SUCCESS", "devices": [{"index": 0, **values}]})
    (parser,) = (parser for parser in registry.parsers() if parser.fact is Gpus and parser.source == NVML)
    gpus: Gpus = parser.parse(Capture(NVML.name, "ok", text))
    return gpus.gpus[0]


def _threshold(figure: str) -> Threshold:
    values: dict[str, list[str]] = {}
    for sku in skus().values():
        value = getattr(sku, figure)
        if value not in (None, "", (), {}):
            values.setdefault(_told(value), []).append(sku.name)
    return Threshold(figure, {value: tuple(names) for value, names in values.items()}, "data/skus/")


def _told(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {item}" for key, item in value.items())
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)

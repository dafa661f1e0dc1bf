"""Measure the declared vLLM instances of a host, from the host itself, also against an earlier measure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from qwenhost.ansible.declaration import declared_of
from qwenhost.ansible.shipping import read_answer, run_zipapp
from qwenhost.records.errors import QwenhostError
from qwenhost.records.load import Comparison, Ladder
from qwenhost.workflows.bench import compare, from_json, measure, of_declared

ARGUMENTS = {
    "concurrency": {"type": "int", "required": True},
    "input_tokens": {"type": "int", "required": True},
    "output_tokens": {"type": "int", "required": True},
    "baseline": {"type": "list", "elements": "dict", "default": []},
    "throughput_drop_percent": {"type": "int", "default": 100},
}


class ActionModule(ActionBase):  # type: ignore[misc]
    """Returns the measures; fails the host where throughput fell below the baseline by more than is allowed."""

    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Measure every instance of one host, one after the other."""
        super().run(tmp, task_vars)
        _, options = self.validate_argument_spec(ARGUMENTS)
        try:
            ladders = tuple(self._measured(options, task_vars or {}))
            lost = list(_lost(ladders, options))
        except QwenhostError as error:
            raise AnsibleActionFail(str(error)) from error
        failure = {"failed": True, "msg": "; ".join(lost)} if lost else {}
        return {"changed": False, "ladders": [asdict(ladder) for ladder in ladders], **failure}

    def _measured(self, options: Mapping[str, Any], task_vars: dict[str, Any]) -> Iterator[Ladder]:
        serving = declared_of(self._templar, task_vars).serving

        def send(act: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
            answer = read_answer(run_zipapp(self, task_vars, "hands", json.dumps(request), act))
            if "error" in answer:
                raise OSError(answer["error"])
            return answer

        host = str(task_vars["inventory_hostname"])
        for target in of_declared(
            host, serving, lambda request: send("bench", request), lambda request: send("http", request)
        ):
            load = replace(
                target.load,
                concurrencies=(options["concurrency"],),
                input_tokens=options["input_tokens"],
                output_tokens=options["output_tokens"],
            )
            yield measure(replace(target, load=load), self._display.v)


def _lost(ladders: tuple[Ladder, ...], options: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each service that is slower than it may be."""
    before = {ladder.service: ladder for ladder in map(from_json, options["baseline"])}
    for ladder in ladders:
        compared = ladder.service in before
        steps = (
            compare(ladder, before[ladder.service], options["throughput_drop_percent"] / 100) if compared else ()
        )
        yield from (_slower(ladder, step) for step in steps if not step.holds)


def _slower(ladder: Ladder, step: Comparison) -> str:
    now = ladder.at(step.concurrency)
    failed = f", and {now.failed} of {now.requests} failed" if now and now.failed else ""
    share = f"{100 * step.output_tokens_ratio:.0f} % of the output tokens/s that it had before"
    return f"{ladder.service}: {share}, at {step.concurrency} requests at a time{failed}"

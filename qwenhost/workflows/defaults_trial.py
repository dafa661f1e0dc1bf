"""What a service gains by its own options over vLLM's defaults, on the same host and within the same hour.

Measured own, defaults, defaults, own: each kind comes first once, so that a drift of the host counts for both.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from qwenhost.expectations import vllm_options
from qwenhost.expectations.declared import read_declared
from qwenhost.facts.vllm_wordings import wordings
from qwenhost.records.errors import HostUnreachable, QwenhostError
from qwenhost.records.host import Host
from qwenhost.records.load import Trial
from qwenhost.workflows.bench import Target, measure, of_declared, over_ssh
from qwenhost.workflows.served import over_ssh as http_over_ssh

SCHEMA = 1
EASED_BY = {
    "vllm.kv-cache-fit": ("max-model-len",),
    "vllm.context-length": ("max-model-len",),
    "vllm.mamba-blocks": ("max-num-seqs",),
    "vllm.mamba-batch": ("max-num-batched-tokens",),
    "vllm.free-memory": ("max-num-seqs", "gpu-memory-utilization"),
}
"""Check that a refusal belongs to -> which of its own options an instance gets back, for it to start at all."""

SLACK, START_SECONDS = 3, 1800
"""Defaults may be so many times slower before they are cut off; a start takes its time on top."""

ANSWER_SECONDS = 7200.0

Say = Callable[[str], None]
Act = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]
"""Does an act on the host: its name and a request in, its answer out. Raises OSError where it failed."""


@dataclass(frozen=True)
class Instance:
    """One instance of a host: how it is measured, its own options, and how its host is told to change them."""

    target: Target
    name: str
    options: Mapping[str, object]
    act: Act


def on_hosts(hosts: Sequence[Host]) -> tuple[Instance, ...]:
    """Return the declared instances of hosts."""
    return tuple(instance for host in hosts for instance in _of_host(host))


def _of_host(host: Host) -> Iterator[Instance]:
    from qwenhost.transports import ssh  # Fabric costs 0.2 s, and only remote hosts need it

    serving = read_declared(host.variables, host=host.name, where=host.origin).serving
    targets = of_declared(host.name, serving, over_ssh(host), http_over_ssh(host))
    for declared, target in zip(serving.instances if serving else (), targets, strict=True):
        options = vllm_options.options(serving, declared) if serving else {}
        yield Instance(
            target, declared.name, options, lambda act, request: ssh.act(host, act, request, ANSWER_SECONDS)
        )


def trial(instance: Instance, keep: Collection[str], say: Say) -> Trial:
    """Measure one instance; it serves with its own options afterwards.

    Raises QwenhostError where it could not be measured, or did not have the defaults until the end.
    """
    began = time.monotonic()
    first = measure(instance.target, _as(say, "own options"))
    lease = START_SECONDS + int(SLACK * 2 * (time.monotonic() - began))
    with _defaults(instance, keep, lease, say) as (kept, refusals):
        defaults = [measure(instance.target, _as(say, "vLLM's defaults")) for _ in range(2)]
    last = measure(instance.target, _as(say, "own options"))
    return Trial((first, last), (defaults[0], defaults[1]), kept, refusals)


def _as(say: Say, kind: str) -> Say:
    return lambda line: say(f"{line} ({kind})")


@contextmanager
def _defaults(
    instance: Instance, keep: Collection[str], lease: int, say: Say
) -> Iterator[tuple[Mapping[str, object], tuple[str, ...]]]:
    """Have an instance serve with vLLM's defaults; yields what it needed besides, and why."""
    service = instance.target.load.service
    try:
        yield _serve_defaults(instance, keep, lease, say)
    finally:
        say(f"{service}: back to its own options")
        try:
            lasted = instance.act("serve-own", {"instance": instance.name})["lasted"]
        except (OSError, HostUnreachable) as error:
            raise QwenhostError(
                f"{service}: not known to serve with its own options again: {error}",
                hint=f"its host brings it back within {lease} s; at once: systemctl restart vllm@{instance.name}",
            ) from error
    if not lasted:
        raise QwenhostError(f"{service}: it was restarted meanwhile, nothing is compared", hint="run it again")


def _serve_defaults(
    instance: Instance, keep: Collection[str], lease: int, say: Say
) -> tuple[Mapping[str, object], tuple[str, ...]]:
    service, refusals = instance.target.load.service, list[str]()
    kept: dict[str, object] | None = {name: instance.options[name] for name in keep if name in instance.options}
    while kept is not None:
        say(f"{service}: starting with vLLM's defaults{f' and {_told(kept)}' if kept else ''}")
        options = vllm_options.defaults(instance.options, kept)
        request = {"instance": instance.name, "options": options, "seconds": lease}
        why_not = _answer(service, instance.act, "serve-with", request)["why_not"]
        if not why_not:
            return kept, tuple(refusals)
        refusals.append(str(why_not))
        say(f"{service}: it does not start: {why_not}")
        kept = _eased(kept, refusals[-1], instance.options)
    raise QwenhostError(
        f"{service}: vLLM's defaults do not start here: {refusals[-1]}",
        hint="--keep NAME leaves it an option that it cannot do without",
    )


def _answer(service: str, act: Act, name: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        return act(name, request)
    except OSError as error:
        raise QwenhostError(f"{service}: {error}") from error


def _eased(kept: Mapping[str, object], refusal: str, own: Mapping[str, object]) -> dict[str, object] | None:
    """Return the options of the next try: one more, that may help against the refusal; None where none does."""
    checks = [word.check for word in wordings() if any(said.search(refusal) for said in word.says)]
    helping = (name for check in checks for name in EASED_BY.get(check, ()) if name in own and name not in kept)
    name = next(helping, None)
    return {**kept, name: own[name]} if name else None


def _told(kept: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in kept.items())


def to_json(trials: Sequence[Trial]) -> str:
    """Return the versioned JSON form."""
    return json.dumps({"schema": SCHEMA, "trials": [_fields(one) for one in trials]}, indent=1)


def _fields(one: Trial) -> dict[str, object]:
    gains = [{**asdict(gain), "output_tokens_ratio": gain.ratio, "agree": gain.agree} for gain in one.gains]
    return {"service": one.own[0].service, "gains": gains, **asdict(one)}

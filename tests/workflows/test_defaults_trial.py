"""Own options against vLLM's defaults: the order of measures, the way back, and what is told of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from qwenhost.cli.bench import command
from qwenhost.records.errors import HostUnreachable, QwenhostError
from qwenhost.reports.bench_text import trial_lines
from qwenhost.workflows import bench, defaults_trial
from qwenhost.workflows.requests import Response

OWN = {"model": "/m", "port": 8000, "max-model-len": 2048, "max-num-seqs": 8, "enforce-eager": True}
NEEDED = {"model": "/m", "port": 8000}

TOO_LONG = (
    "ValueError: To serve at least one request with the model's max seq len (262144), (16.2 GiB KV cache "
    "is needed, which is larger than the available KV cache memory (9.5 GiB)."
)
TOO_MANY = "ValueError: max_num_seqs (256) exceeds available Mamba cache blocks (42)."
NO_ROOM = "RuntimeError: CUDA out of memory occurred when warming up sampler with 256 dummy requests."


class Host:
    """A host whose service does so many tokens/s with each kind of options, measure by measure."""

    def __init__(self, own: tuple[float, ...], defaults: tuple[float, ...], *refusals: str) -> None:
        self.rates = {True: list(own), False: list(defaults)}
        self.refusals, self.own, self.lasts = list(refusals), True, True
        self.asked: list[str] = []
        self.options: list[dict[str, object]] = []

    def load(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        warm = self.asked[-1:] != ["warm-up"]
        self.asked.append("warm-up" if warm else "own" if self.own else "defaults")
        rate = self.rates[self.own][0] if warm else self.rates[self.own].pop(0)
        times = dict.fromkeys(("median_ttft_ms", "p99_ttft_ms", "median_tpot_ms", "p99_tpot_ms"), 1000 / rate)
        return {"result": {"completed": 8, "output_throughput": rate, "total_token_throughput": rate, **times}}

    def act(self, name: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        self.own = name == "serve-own"
        if self.own:
            return {"lasted": self.lasts}
        self.options.append(dict(request["options"]))
        return {"why_not": self.refusals.pop(0) if self.refusals else ""}

    def instance(self, act: Callable[[str, Mapping[str, Any]], Mapping[str, Any]] | None = None) -> Any:
        load = bench.Load("gpu-a1 vllm@main", "http://127.0.0.1:1", "m", "/m", (4,))
        target = bench.Target(load, self.load, lambda *_: Response(200, {}, '{"version": "0.32.0"}'))
        return defaults_trial.Instance(target, "main", OWN, act or self.act)


def quiet(line: str) -> None:
    assert line.startswith("gpu-a1 vllm@main: ")


def test_each_kind_comes_first_once_and_every_measure_is_warm() -> None:
    host = Host((150.0, 160.0), (100.0, 80.0))
    told = defaults_trial.trial(host.instance(), (), quiet)
    measures = ("own", "defaults", "defaults", "own")
    assert host.asked == [word for kind in measures for word in ("warm-up", kind)]
    assert host.options == [NEEDED] and host.own
    (gain,) = told.gains
    assert gain.output_tokens_ratios == (1.5, 2.0) and gain.agree
    assert gain.ratio == pytest.approx(3**0.5)
    lines = "\n".join(trial_lines(told))
    assert "x1.73   x1.50 x2.00" in lines and "noise" not in lines
    fields = json.loads(defaults_trial.to_json([told]))["trials"][0]
    assert (fields["service"], fields["gains"][0]["agree"]) == ("gpu-a1 vllm@main", True)


def test_orders_that_disagree_are_noise() -> None:
    told = defaults_trial.trial(Host((110.0, 90.0), (100.0, 100.0)).instance(), (), quiet)
    assert not told.gains[0].agree
    assert "no difference beyond the noise" in "\n".join(trial_lines(told))


@pytest.mark.parametrize(
    ("keep", "refusals", "kept"),
    [
        ((), (TOO_LONG,), {"max-model-len": 2048}),
        ((), (TOO_LONG, TOO_MANY), {"max-model-len": 2048, "max-num-seqs": 8}),
        (("enforce-eager", "unknown"), (), {"enforce-eager": True}),
        (("max-model-len",), (NO_ROOM,), {"max-model-len": 2048, "max-num-seqs": 8}),
    ],
)
def test_what_the_defaults_cannot_do_without_is_told(
    keep: tuple[str, ...], refusals: tuple[str, ...], kept: dict[str, object]
) -> None:
    host = Host((1.0, 1.0), (1.0, 1.0), *refusals)
    told = defaults_trial.trial(host.instance(), keep, quiet)
    assert told.kept == kept and host.options[-1] == {**NEEDED, **kept}
    assert told.refusals == refusals
    lines = "\n".join(trial_lines(told))
    assert all(f"{name} {value}" in lines for name, value in kept.items())


@pytest.mark.parametrize("refusals", [("InvalidCxxCompiler: No working C++ compiler",), (TOO_MANY, TOO_MANY)])
def test_defaults_that_never_start_are_an_error_and_the_service_is_back(refusals: tuple[str, ...]) -> None:
    host = Host((1.0, 1.0), (1.0, 1.0), *refusals)
    with pytest.raises(QwenhostError, match=re.escape(f"do not start here: {refusals[0]}")) as told:
        defaults_trial.trial(host.instance(), (), quiet)
    assert "--keep" in told.value.hint and host.own and len(host.options) == len(refusals)


def test_a_service_that_was_restarted_meanwhile_is_not_compared() -> None:
    host = Host((1.0, 1.0), (1.0, 1.0))
    host.lasts = False
    with pytest.raises(QwenhostError, match="restarted meanwhile, nothing is compared"):
        defaults_trial.trial(host.instance(), (), quiet)


def test_a_failed_measure_takes_the_defaults_back() -> None:
    host = Host((1.0, 1.0), ())
    with pytest.raises(IndexError):
        defaults_trial.trial(host.instance(), (), quiet)
    assert host.own


def test_a_host_that_is_lost_is_named_with_its_way_back() -> None:
    host = Host((1.0, 1.0), (1.0, 1.0))

    def act(name: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        if name == "serve-own":
            raise HostUnreachable("gpu-a1: no route to host")
        return host.act(name, request)

    with pytest.raises(QwenhostError, match="not known to serve with its own options") as told:
        defaults_trial.trial(host.instance(act), (), quiet)
    assert "systemctl restart vllm@main" in told.value.hint


INVENTORY = """
gpu_hosts:
  hosts:
    gpu-a1:
      ansible_host: 192.0.2.1
      qwenhost_vllm:
        version: "0.32.0"
        model: {name: m, path: /m}
        instances: [{name: main, gpus: [0], port: 8000}]
"""


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["-i", "hosts.yml", "--compare-defaults"], "nobody to ask on this terminal"),
        (["http://127.0.0.1:1", "--compare-defaults"], "wants -i INVENTORY"),
        (["-i", "hosts.yml", "--compare-defaults", "--html", "x"], "goes with no"),
    ],
)
def test_nothing_is_stopped_without_consent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], told: str
) -> None:
    (tmp_path / "hosts.yml").write_text(INVENTORY)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(command, arguments, standalone_mode=False)
    assert isinstance(done.exception, QwenhostError) and done.exception.exit_code == 2
    assert told in f"{done.exception} {done.exception.hint}"

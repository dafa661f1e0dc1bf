"""The proxy before the instances, as declared and running."""

from __future__ import annotations

from collections.abc import Iterator

from qwenhost.checks.declare import Judgement, check, judged, skip
from qwenhost.checks.vllm import NOT_SERVED, SERVED, serves
from qwenhost.facts.vllm_proxy import ProxySettings, ProxyUnit
from qwenhost.records.desired import Expectations

SUBJECT = "vllm-proxy"


@check("vllm.proxy", remedy=SERVED, applies=serves, skipped=NOT_SERVED, consequence_of=("vllm.installed",))
def proxy(found: ProxySettings, unit: ProxyUnit, want: Expectations) -> Iterator[Judgement]:
    """The proxy listens where it was declared, and nowhere when it was not.

    vLLM's own port answers more than the API (metrics, tokenizer, version), without a key; the proxy lets only
    /v1/ and /health through, and only to instances that are healthy.
    """
    wanted = dict(want.serving.proxy) if want.serving else {}
    if not wanted and found.settings is None:
        yield skip(SUBJECT, "no proxy is declared (qwenhost_vllm.proxy), and there is none")
        return
    alike = (found.settings or {}) == wanted
    running = unit.state == "active"
    shown = "as declared" if alike else _shown(found.settings or {})
    yield judged(
        SUBJECT,
        alike and running,
        observed=f"{shown}, {unit.state}",
        expected=f"{_shown(wanted)}, active" if wanted else "none",
        origin=want.serving.origin if want.serving else "",
    )


def _shown(settings: dict[str, object] | object) -> str:
    given = dict(settings) if isinstance(settings, dict) else {}
    if not given:
        return "not configured"
    scheme = "https" if given.get("certificate") else "http"
    return f"{scheme}://{given.get('address')}:{given.get('port')}"

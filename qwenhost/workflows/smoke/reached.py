"""Is the service there, under its name, and closed to those who should not get in?"""

from __future__ import annotations

import secrets

from qwenhost.records.finding import Verdict, by_hand
from qwenhost.workflows.smoke.service import MATCH_NAME, Seen, Service, bearer, judged, refused, said

LOCK = by_hand("Give the service an API key: /etc/qwenhost/vllm/api_key on the host.")
NO_DEV_MODE = by_hand("Take VLLM_SERVER_DEV_MODE out of the service's environment and restart it.")
REFUSALS = (401, 403, 404, 405)
DEV_PATHS = ("/is_sleeping", "/server_info")
"""There only in dev mode, beside others that unload the model or run code in its workers."""


def health(service: Service) -> Seen:
    """Without it nothing that follows can be asked."""
    answer = service.get("/health", {})
    told = f"HTTP {answer.status}"
    return judged(answer.status == 200, told, "HTTP 200", said(answer) or told)


def served_name(service: Service) -> Seen:
    """Clients name the model in each request; any other name is refused with 404."""
    wanted = service.name or "a model"
    if service.models.status != 200:
        return refused(service.models, wanted)
    names = [str(model["id"]) for model in service.served]
    listed = bool(names) and (not service.name or service.name in names)
    return judged(listed, ", ".join(names) or "no model", wanted, said(service.models), MATCH_NAME)


def key_refused(service: Service) -> Seen:
    """An open service lets anybody who reaches the port use the GPUs."""
    wrong = {"wrong key": bearer(secrets.token_hex(16)), "no key": {}}
    got = {name: service.get("/v1/models", headers).status for name, headers in wrong.items()}
    observed = ", ".join(f"{name}: HTTP {status}" for name, status in got.items())
    expected = "HTTP 401 without a key, HTTP 401 with a wrong key"
    return judged(set(got.values()) == {401}, observed, expected, observed, LOCK)


def unknown_path(service: Service) -> Seen:
    """A path that nobody serves and is answered all the same belongs to another program, or to an open proxy."""
    answer = service.post(f"/v1/{secrets.token_hex(4)}", "{}")
    return judged(answer.status in REFUSALS[1:], f"HTTP {answer.status}", "HTTP 404", said(answer))


def dev_mode(service: Service) -> Seen:
    """In vLLM's dev mode anybody can put the model to sleep or run code in its workers, without a key."""
    got = {path: service.get(path, {}).status for path in DEV_PATHS}
    opened = [path for path, status in got.items() if status < 400]
    if opened:
        return judged(False, f"{', '.join(opened)} answered", "off", remedy=NO_DEV_MODE)
    if set(got.values()) <= set(REFUSALS):
        return Seen(Verdict.PASS, "off", "off")
    return Seen(Verdict.UNKNOWN, ", ".join(f"{path}: HTTP {status}" for path, status in got.items()), "off")

"""What is read on a host: every source that can be asked, and those that its declaration adds."""

from __future__ import annotations

from qwenhost.expectations.declared import Declared
from qwenhost.facts import registry
from qwenhost.facts.model_files import files_source
from qwenhost.facts.sysctl import declared_source
from qwenhost.facts.vllm import health_sources
from qwenhost.facts.vllm_metrics import metrics_sources
from qwenhost.records.source import Source


def standing_sources() -> tuple[Source, ...]:
    """Return what is read on every host; forms that are only recognised in files are not asked for."""
    return tuple(source for source in registry.sources() if source.live)


def sources_of(declared: Declared) -> tuple[Source, ...]:
    """Return what is read on a host: the standing sources, and what its settings and its service add to them."""
    serving, settings = declared.serving, (declared_source(declared.sysctl),) if declared.sysctl else ()
    if serving is None:
        return (*standing_sources(), *settings)
    ports = [instance.port for instance in serving.instances]
    return (
        *standing_sources(),
        *settings,
        *health_sources(ports),
        *metrics_sources(ports),
        files_source(serving.model_path),
    )

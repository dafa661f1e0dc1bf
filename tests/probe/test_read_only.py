"""Doctor changes nothing: every command that a source may run has a form that only reads."""

from __future__ import annotations

import re

import pytest

from qwenhost.facts.model_files import files_source
from qwenhost.facts.vllm import health_sources
from qwenhost.records.source import Source
from qwenhost.workflows.asked import standing_sources

READ_ONLY = [
    r"nvidia-smi( -q| -q -x| -L| --version)?",
    r"nvidia-smi (topo -m|nvlink -s|mig -lgi|mig -lci|mig -lgip)",
    r"nv-fabricmanager --version",
    r"systemctl show( [\w@.*-]+)*( --all)?( (-p |--property=)[\w,]+)*( [\w@.*-]+)*",
    r"systemctl (is-active|list-unit-files|list-units)( [\w@.*=,-]+)*",
    r"journalctl( [\w@.*'=:-]+)*",
    r"dmesg( --?[a-z-]*(time|kernel|raw)[a-z-]*)*",
    r"lspci( -[Dnvmk]+)*( -d [0-9a-f]*:)?",
    r"dkms status",
    r"modinfo( -F \w+)? nvidia",
    r"lsmod",
    r"uname -[a-z]+",
    r"lscpu( -[a-zA-Z=,]+)?",
    r"mokutil --sb-state",
    r"(dpkg-query -W|rpm -qa|apt-mark showhold)( .*)?",
    r"(df|free|uptime|swapon --show)( [\w/=,-]+)*",
    r"(timedatectl show|chronyc -n tracking|chronyc tracking)( .*)?",
    r"(docker|nvidia-ctk|nvidia-container-cli|containerd|podman) (--version|info|version)( .*)?",
    r"(ibstat|ibv_devinfo)( -v)?",
    r"(cat|ls|stat|readlink|findmnt)( [^>|;&]+)+",
    r"ldconfig -p",
    r"find( /\S+)+( -(xdev|maxdepth \d|name \S+|path \S+|xtype d|readable|o)| [()!])+",
    r"find -L /[\w./-]+ -maxdepth 1 -type f -printf [%\\\w@ ]+",
    r"/opt/qwenhost/vllm/current/bin/(vllm|python) .*--version",
]
"""Whole commands that read. One that is not here has to be looked at before it is added."""

CHANGING = re.compile(
    r"(^| )(-r|--gpu-reset|-pm|-pl|-mig|-cgi|-dgi|-cci|-dci|-e|-p|-c|-C|--clear|--rotate|--vacuum\S*|start"
    r"|stop|restart|enable|disable|set)( |$)"
)
"""Words that change something in the commands above."""


def sources() -> tuple[Source, ...]:
    """Return everything that may be read on a host."""
    return (*standing_sources(), *health_sources([8000]), files_source("/srv/models/qwen3.5-27b"))


def commands() -> list[Source]:
    """Return every source that runs a command."""
    return [source for source in sources() if source.kind == "command"]


@pytest.mark.parametrize("source", commands(), ids=lambda source: source.name)
def test_commands_only_read(source: Source) -> None:
    text = " ".join(source.argv)
    assert any(re.fullmatch(form, text) for form in READ_ONLY), f"not known to be read-only: {text}"
    options = [word for word in source.argv if word not in ("-p", "-c", "-e") or source.argv[0] == "nvidia-smi"]
    assert not CHANGING.search(" ".join(options)), f"changes something: {text}"


@pytest.mark.parametrize("source", sources(), ids=lambda source: source.name)
def test_sources_are_bounded(source: Source) -> None:
    assert 0 < source.timeout_seconds <= 10
    assert 0 < source.limit_bytes <= 8 * 1024 * 1024


def test_names_are_unique() -> None:
    names = [source.name for source in sources()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    "changing",
    ["nvidia-smi -r", "nvidia-smi -pm 1", "nvidia-smi mig -cgi 9", "systemctl restart x", "dmesg -C", "rm x"],
)
def test_the_list_refuses_what_changes(changing: str) -> None:
    allowed = any(re.fullmatch(form, changing) for form in READ_ONLY)
    assert not allowed or CHANGING.search(changing)

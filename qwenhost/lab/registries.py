"""Which hosts the lab's package proxy may reach: those that this machine's own APT and pip use."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable
from urllib.parse import urljoin, urlsplit

from qwenhost.lab.aptsources import machine_sources

DEFAULT_PORTS = {"http": 80, "https": 443}
INDEX_TIMEOUT_SECONDS = 10
SIMPLE_JSON = "application/vnd.pypi.simple.v1+json"

Origin = tuple[str, int]


def allowed_origins() -> set[Origin]:
    """(host, port) of every APT source, every pip index, and the hosts that keep the indexes' files."""
    indexes = pip_indexes(_pip("config", "list"), _pip("install", "--help"))
    files = [url for index in indexes for url in _file_urls(index)]
    return origins([source.uri for source in machine_sources()] + indexes + files)


def origins(urls: Iterable[str]) -> set[Origin]:
    """The (host, port) of each http or https URL; others, such as file:, are left out."""
    parts = [urlsplit(url) for url in urls]
    return {
        (part.hostname, part.port or DEFAULT_PORTS[part.scheme])
        for part in parts
        if part.hostname and part.scheme in DEFAULT_PORTS
    }


def pip_indexes(config: str, help_text: str) -> list[str]:
    """Index URLs from `pip config list`, or pip's own default, which its help names.

    An index that is set replaces the default; an extra one does not.
    """
    index = re.search(r"^\S*\.index-url='(.*)'$", config, re.MULTILINE)
    default = re.search(r"--index-url.*?\(default\s+(\S+?)\)", help_text, re.DOTALL)
    main = [found[1] for found in (index or default,) if found]
    extra = " ".join(re.findall(r"\.extra-index-url='(.*)'$", config, re.MULTILINE)).split()
    return [url for url in main + extra if urlsplit(url).scheme in DEFAULT_PORTS]


def _pip(*arguments: str) -> str:
    # COLUMNS: an URL must not be broken over two lines.
    environment = os.environ | {"COLUMNS": "500"}
    command = [sys.executable, "-m", "pip", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, stdin=subprocess.DEVNULL
    ).stdout


def _file_urls(index: str) -> list[str]:
    """Where the index keeps pip's own files; empty when it does not answer (only it is allowed then)."""
    page = urljoin(index.rstrip("/") + "/", "pip/")
    request = urllib.request.Request(page, headers={"Accept": SIMPLE_JSON})
    try:
        with urllib.request.urlopen(request, timeout=INDEX_TIMEOUT_SECONDS) as answer:
            return [urljoin(page, file["url"]) for file in json.load(answer)["files"]]
    except (urllib.error.URLError, TimeoutError, ValueError, KeyError):
        return []

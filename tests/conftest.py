"""What tests of several packages share."""

from __future__ import annotations

from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling


class FolderScheduling(LoadScopeScheduling):
    """All tests of a folder run in one process: the simulated hosts that they share are its own."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.partition("::")[0].rpartition("/")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FolderScheduling | None:
    """Take the folder for the scope of `--dist loadscope`; a test id no longer carries a group (pytest 9.2)."""
    return FolderScheduling(config, log) if config.getvalue("dist") == "loadscope" else None


@pytest.fixture(scope="session")
def native_cache(request: pytest.FixtureRequest) -> Path:
    """A folder for compiled simulators that outlives the run; file names tell their source's digest."""
    cache: pytest.Cache = request.config.cache  # type: ignore[assignment]
    return cache.mkdir("native")

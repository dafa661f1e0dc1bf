"""What tests of several packages share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def native_cache(request: pytest.FixtureRequest) -> Path:
    """A folder for compiled simulators that outlives the run; file names tell their source's digest."""
    cache: pytest.Cache = request.config.cache  # type: ignore[assignment]
    return cache.mkdir("native")

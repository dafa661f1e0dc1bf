"""`python3 -m qwenhost.probe < request.json > bundle.json`."""

from __future__ import annotations

from qwenhost.probe.main import main

main()

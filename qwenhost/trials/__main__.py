"""`python3 -m qwenhost.trials < request.json > bundle.json`."""

from __future__ import annotations

from qwenhost.trials.main import main

main()

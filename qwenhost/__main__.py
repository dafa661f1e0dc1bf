"""`python -m qwenhost`."""

from __future__ import annotations

from qwenhost.cli.main import main

main()

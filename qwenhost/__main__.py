"""`python -m qwenhost`."""

from qwenhost.cli.main import main

main()

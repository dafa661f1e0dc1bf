"""Guest side of the A100 simulator: standard library only, Python 3.8; a lab host has it as `a100sim`."""

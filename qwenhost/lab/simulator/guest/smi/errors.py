"""How the simulated nvidia-smi ends when something is wrong."""

from __future__ import annotations


class SmiError(Exception):
    """Text for stdout and the exit code, which is an NVML error number."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.text = text
        self.code = code

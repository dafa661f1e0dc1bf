"""From which figures on errors of the PCIe bus are worth a word: data/pcie.yaml."""

from __future__ import annotations

from functools import cache

from qwenhost.expectations.tables import figures

PATH = "pcie.yaml"


@cache
def corrected_errors() -> int:
    """Return from how many corrected errors of one device on there is a warning. Raises BadData."""
    return int(figures(PATH, ("corrected_errors",))["corrected_errors"])

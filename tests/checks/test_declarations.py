"""What holds of every declared check."""

from __future__ import annotations

import pytest

from qwenhost.checks.declare import Check, checks

ALL = list(checks().values())


@pytest.mark.parametrize("check", ALL, ids=lambda check: check.id)
def test_declaration(check: Check) -> None:
    assert len(check.why) > 60, "the docstring says why an operator cares"
    assert all(cause in checks() for cause in check.consequence_of), check.consequence_of


def test_causes_have_no_cycle() -> None:
    """Two checks that blame one another would both be told as consequences, and the cause by none."""

    def blamed(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, " <- ".join([*above, name])
        for cause in checks()[name].consequence_of:
            blamed(cause, (*above, name))

    for name in checks():
        blamed(name, ())

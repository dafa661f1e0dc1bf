"""NCCL: what it is told by its environment, and what it warns of."""

from __future__ import annotations

from collections.abc import Iterator

from qwenhost.checks.declare import Judgement, check
from qwenhost.expectations.nccl import Harm, harms
from qwenhost.facts.nccl import NcclSettings, Setting
from qwenhost.facts.topology import Topology
from qwenhost.records.desired import Expectations
from qwenhost.records.finding import Verdict, by_hand

HOST = "host"


@check(
    "nccl.environment",
    remedy=by_hand("Take the variable out of the service's environment, restart the service and measure again."),
)
def environment(settings: NcclSettings, matrix: Topology | None, want: Expectations) -> Iterator[Judgement]:
    """No variable forbids NCCL the ways that the host has.

    A variable that once went round a fault of another host stays in an environment file for years: with
    peer access off, tensor parallelism goes through host memory at a tenth of NVLink's rate, and nothing
    else tells.
    """
    harmful = {setting.name: setting for setting in settings.settings if _harm(setting)}
    for setting in harmful.values():
        yield _told(setting, matrix, want)
    for path in settings.unread:
        yield Judgement(path, Verdict.UNKNOWN, "could not be read")
    if not harmful and not settings.unread:
        yield Judgement(HOST, Verdict.PASS, "no harmful variable")


def _harm(setting: Setting) -> Harm | None:
    harm = harms().get(setting.name)
    return harm if harm and harm.values.fullmatch(setting.value) else None


def _told(setting: Setting, matrix: Topology | None, want: Expectations) -> Judgement:
    harm = harms()[setting.name]
    hurts = harm.hurts == "always" or (harm.hurts == "nvlink" and _may_have_nvlink(matrix, want))
    return Judgement(
        f"{setting.name}={setting.value}",
        Verdict.WARN if hurts else Verdict.NOTE,
        harm.effect,
        "not set",
        evidence=f"{setting.where}: {setting.line}" if setting.where else setting.line,
        origin=f"data/nccl.yaml: {setting.name}",
    )


def _may_have_nvlink(matrix: Topology | None, want: Expectations) -> bool:
    """Tell whether NVLink joins GPUs here; true as long as nothing shows the contrary."""
    if matrix:
        return any(cell.startswith("NV") for cell in matrix.cells.values())
    return want.sku is None or want.sku.nvlink_links != 0

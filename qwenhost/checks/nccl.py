"""NCCL: what it is told by its environment, and what it warns of."""

from __future__ import annotations

from collections.abc import Iterator

from qwenhost.checks.declare import Judgement, check, note
from qwenhost.checks.per_vllm import blamed
from qwenhost.expectations.nccl import PATH, Warned, harms, warned
from qwenhost.facts.nccl import NcclSettings, Setting
from qwenhost.facts.nccl_log import NcclLog
from qwenhost.facts.network import NetInterfaces
from qwenhost.facts.nvlink import NvLinks
from qwenhost.facts.rdma_ports import RdmaPorts
from qwenhost.facts.topology import Topology
from qwenhost.facts.vllm_runs import VllmRuns
from qwenhost.records.desired import Expectations
from qwenhost.records.finding import Verdict, by_hand

HOST = "host"

INTERFACES = {"NCCL_SOCKET_IFNAME": False, "GLOO_SOCKET_IFNAME": True, "TP_SOCKET_IFNAME": True}
"""Variable -> whether it names interfaces in full; NCCL takes prefixes."""


@check(
    "nccl.environment",
    remedy=by_hand("Take the variable out of the service's environment, restart the service and measure again."),
    consequence_of=("driver.present", "driver.cuda-match", "fabric.running", "gpu.on-bus", "nvlink.links"),
)
def environment(
    settings: NcclSettings | None,
    log: NcclLog | None,
    runs: VllmRuns | None,
    matrix: Topology | None,
    nvlinks: NvLinks | None,
    interfaces: NetInterfaces | None,
    ports: RdmaPorts | None,
    want: Expectations,
) -> Iterator[Judgement]:
    """No variable forbids NCCL the ways that the host has, and NCCL warns of nothing.

    A variable that once went round a fault of another host stays in an environment file for years: with
    peer access off, tensor parallelism goes through host memory at a tenth of NVLink's rate, and nothing
    else tells.
    """
    ways = {
        "always": True,
        "never": False,
        "nvlink": _may_have_nvlink(matrix, nvlinks, want),
        "rdma": bool((ports and any(port.state == "active" for port in ports.ports)) or (log and log.hcas)),
    }
    told = [
        *_settings(settings, ways),
        *_names(settings, interfaces, ports),
        *_warnings(log),
        *_failures(runs, log),
    ]
    if not told and log:
        told = [*_detours(log, ways, _shown(matrix))]
    yield from told
    for path in settings.unread if settings else ():
        yield Judgement(path, Verdict.UNKNOWN, "could not be read")
    if settings and settings.whole and not settings.unread and not told:
        yield Judgement(HOST, Verdict.PASS, "no harmful variable")
    elif log and not told:
        yield note(HOST, "NCCL's log shows no harmful variable and no warning")


def _may_have_nvlink(matrix: Topology | None, nvlinks: NvLinks | None, want: Expectations) -> bool:
    """Tell whether NVLink joins GPUs here; true as long as nothing shows the contrary."""
    if nvlinks and any(gpu.up for gpu in nvlinks.gpus):
        return True
    if matrix:
        return any(cell.startswith("NV") for cell in matrix.cells.values())
    return want.sku is None or want.sku.nvlink_links != 0


def _settings(settings: NcclSettings | None, ways: dict[str, bool]) -> Iterator[Judgement]:
    for setting in settings.last() if settings else ():
        harm = harms().get(setting.name)
        if harm and harm.values.fullmatch(setting.value):
            yield Judgement(
                f"{setting.name}={setting.value}",
                Verdict.WARN if ways[harm.hurts] else Verdict.NOTE,
                harm.effect,
                "not set",
                evidence=_evidence(setting),
                origin=f"data/{PATH}: {setting.name}",
            )


def _evidence(setting: Setting) -> str:
    return f"{setting.where}: {setting.line}" if setting.where else setting.line


def _names(
    settings: NcclSettings | None, interfaces: NetInterfaces | None, ports: RdmaPorts | None
) -> Iterator[Judgement]:
    """Judge variables that name interfaces and HCAs; an exclusion that fits nothing does no harm."""
    hcas = tuple({port.device for port in ports.ports}) if ports else ()
    there = dict.fromkeys(INTERFACES, interfaces.names if interfaces else ()) | {"NCCL_IB_HCA": hcas}
    for setting in settings.last() if settings else ():
        names = there.get(setting.name, ())
        excludes = setting.value.startswith("^") or not setting.value
        if names and not excludes and not _fits(setting.value, names, INTERFACES.get(setting.name, False)):
            yield Judgement(
                f"{setting.name}={setting.value}",
                Verdict.WARN,
                f"names none of {', '.join(sorted(names))}",
                "a name of this host",
                evidence=_evidence(setting),
            )


def _fits(value: str, there: tuple[str, ...], whole: bool) -> bool:
    names = [name.partition(":")[0] for name in value.removeprefix("=").split(",") if name]
    if whole or value.startswith("="):
        return any(name in there for name in names)
    return any(one.startswith(name) for name in names for one in there)


def _warnings(log: NcclLog | None) -> Iterator[Judgement]:
    """Tell each kind of warning once; those that nobody knows stand together in a note."""
    kinds = dict[Warned, list[str]]()
    strange = list[str]()
    for line in log.warnings if log else ():
        kind = next((kind for kind in warned() if kind.told(line) is not None), None)
        (kinds.setdefault(kind, []) if kind else strange).append(line)
    for kind, lines in kinds.items():
        told = kind.told(lines[0]) or ""
        if kind.told_by:
            yield note("NCCL", told, expected=f"told by {kind.told_by}", evidence=lines[0])
        else:
            remedy = by_hand(kind.remedy)
            yield Judgement("NCCL", Verdict.WARN, told, "no warning", evidence=lines[0], remedy=remedy)
    if strange:
        yield note("NCCL", f"{len(strange)} other warnings", evidence=strange[0])


def _shown(matrix: Topology | None) -> bool:
    return bool(matrix and any(cell.startswith("NV") for cell in matrix.cells.values()))


def _detours(log: NcclLog, ways: dict[str, bool], nvlink: bool) -> Iterator[Judgement]:
    """Tell of channels that leave a better way unused, where no variable explains it."""
    remedy = by_hand(
        "Start it with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=ENV,GRAPH,P2P: the lines before the channels say why."
    )
    local = [way for way in log.ways if not way.startswith("NET")]
    if nvlink and local == ["SHM"]:
        observed = "all channels of this host go through host memory"
        yield Judgement("NCCL", Verdict.WARN, observed, "P2P, since NVLink joins the GPUs", remedy=remedy)
    if ways["rdma"] and "NET/Socket" in log.ways:
        yield Judgement("NCCL", Verdict.WARN, "channels between hosts use TCP sockets", "NET/IB", remedy=remedy)


def _failures(runs: VllmRuns | None, log: NcclLog | None) -> Iterator[Judgement]:
    """Tell of services that NCCL ended, where none of its own lines says why."""
    if log and log.warnings:
        return
    for subject, cause in blamed("nccl.environment", runs):
        remedy = by_hand("Start it with NCCL_DEBUG=INFO: the warning that stands above the error names the cause.")
        yield Judgement(subject, Verdict.WARN, cause.observed, evidence=cause.line, remedy=remedy)

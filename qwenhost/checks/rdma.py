"""GPUDirect RDMA: HCAs read and write the GPUs' memory without a copy in the host's."""

from __future__ import annotations

from collections.abc import Iterator

from qwenhost.checks.declare import Judgement, check, note, skip
from qwenhost.checks.ib import HOST, NO_HCA
from qwenhost.expectations.rdma import PATH, rdma_limits
from qwenhost.facts.driver import DriverVersions
from qwenhost.facts.modules import KernelModules
from qwenhost.facts.nccl_log import NcclLog
from qwenhost.facts.peermem import PeermemTrouble
from qwenhost.facts.rdma_ports import RdmaPorts
from qwenhost.records.finding import Verdict, by_hand
from qwenhost.records.versions import older

PEERMEM = frozenset({"nvidia_peermem", "nv_peer_mem"})

_REBUILD = by_hand(
    "Install the driver again, to build it against the ib_core that is loaded; then modprobe nvidia_peermem."
)


@check(
    "rdma.peermem",
    remedy=by_hand(
        "Load it: modprobe nvidia_peermem; for each boot name it in /etc/modules-load.d/nvidia-peermem.conf."
    ),
    consequence_of=("driver.present", "driver.versions-agree"),
)
def peermem(
    modules: KernelModules | None,
    ports: RdmaPorts | None,
    log: NcclLog | None,
    trouble: PeermemTrouble | None,
    driver: DriverVersions | None,
) -> Iterator[Judgement]:
    """The kernel lets HCAs reach the GPUs' memory.

    Without nvidia_peermem, or DMA-BUF in its place, NCCL copies everything through host memory: between
    hosts the rate falls to a fraction, and nothing fails.
    """
    if trouble and (trouble.refused or trouble.errors):
        yield from _troubles(trouble)
    elif log and log.direct:
        yield _as_told(log, modules)
    elif ports and not ports.any and not (log and log.hcas):
        yield skip(HOST, NO_HCA)
    elif modules and "nvidia" in modules.names and _has_hca(modules, ports, log):
        yield _as_loaded(modules, closed=bool(driver and driver.open_module is False))


def _troubles(trouble: PeermemTrouble) -> Iterator[Judgement]:
    for line in trouble.refused[:1]:
        yield Judgement("nvidia_peermem", Verdict.WARN, "was refused", "loaded", evidence=line, remedy=_REBUILD)
    for line in trouble.errors[:1]:
        remedy = by_hand("Update the driver: its module and the network stack do not agree on a freed region.")
        told = f"{trouble.count} errors" if trouble.count > 1 else "an error"
        yield Judgement("nvidia_peermem", Verdict.WARN, told, "none", evidence=line, remedy=remedy)


def _as_told(log: NcclLog, modules: KernelModules | None) -> Judgement:
    """Judge by what NCCL says; an old NCCL that does not see a module which is there is told by the next check."""
    without = sorted(name for name, direct in log.direct.items() if not direct)
    loaded = bool(modules and modules.names & PEERMEM)
    if not without:
        return Judgement(HOST, Verdict.PASS, f"NCCL uses it with {len(log.direct)} HCAs", evidence=log.direct_line)
    if loaded and _too_old(log):
        return note(HOST, "loaded, but NCCL is too old to see it", evidence=log.direct_line)
    told = f"NCCL copies through host memory for {', '.join(without)}"
    expected = "nvidia_peermem loaded, or DMA-BUF"
    remedy = _REBUILD if loaded else None
    if modules and "nvidia" in modules.names and not loaded:
        told = f"nvidia_peermem is not loaded: {told}"
    return Judgement(HOST, Verdict.WARN, told, expected, evidence=log.direct_line, remedy=remedy)


def _has_hca(modules: KernelModules, ports: RdmaPorts | None, log: NcclLog | None) -> bool:
    return bool(
        (ports and ports.any) or (log and log.hcas) or modules.names & {"mlx5_ib", "mlx4_ib", "bnxt_re", "irdma"}
    )


def _as_loaded(modules: KernelModules, *, closed: bool) -> Judgement:
    """Judge by what is loaded; only the open driver has DMA-BUF in its place."""
    if modules.names & PEERMEM:
        return Judgement(HOST, Verdict.PASS, "loaded")
    if closed:
        observed = "nvidia_peermem is not loaded, and the closed driver has no DMA-BUF"
        return Judgement(HOST, Verdict.WARN, observed, "loaded")
    return note(HOST, "nvidia_peermem is not loaded", expected="loaded, unless NCCL uses DMA-BUF (its log tells)")


@check(
    "rdma.nccl-version",
    remedy=by_hand(
        "Install a newer NCCL: pip install -U nvidia-nccl-cu12 in the service's environment, then restart it."
    ),
)
def nccl_version(
    log: NcclLog | None, modules: KernelModules | None, ports: RdmaPorts | None
) -> Iterator[Judgement]:
    """NCCL is new enough to find the module that is loaded.

    Versions before the one named here look for nv_peer_mem only. With nvidia_peermem they say that
    GPUDirect RDMA is disabled and copy through host memory, though all is there.
    """
    least = rdma_limits().nccl_knows_peermem
    if log and log.version and (log.hcas or (ports and ports.any)):
        blind = _too_old(log) and not any(log.direct.values()) and not _old_module(modules)
        told = bool(log.direct) and (modules is None or bool(modules.names & PEERMEM))
        verdict = Verdict.PASS if not blind else Verdict.WARN if told else Verdict.NOTE
        origin = f"data/{PATH}: nccl_knows_peermem"
        yield Judgement(f"NCCL {log.version}", verdict, log.version, f"{least} or newer", log.direct_line, origin)
    elif ports and not ports.any:
        yield skip(HOST, NO_HCA)
    elif ports or (log and log.hcas):
        yield note(HOST, "the version of NCCL was not seen")


def _too_old(log: NcclLog) -> bool:
    return bool(log.version) and older(log.version, rdma_limits().nccl_knows_peermem)


def _old_module(modules: KernelModules | None) -> bool:
    return bool(modules and "nv_peer_mem" in modules.names)

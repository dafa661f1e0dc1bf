"""What the boards keep: VBIOS versions, one per kind and of the right chip, and a sound InfoROM."""

from __future__ import annotations

from collections.abc import Iterator

from qwenhost.checks.declare import Judgement, check, judged, skip
from qwenhost.checks.per_gpu import DRIVER_ANSWERS
from qwenhost.expectations.driver_tables import vbios_generations
from qwenhost.facts.gpus import Gpu, Gpus
from qwenhost.facts.inforom import InforomWarnings
from qwenhost.records.finding import Verdict, by_firmware, by_hardware


@check(
    "firmware.uniform",
    remedy=by_firmware(
        "Ask the system's vendor for one VBIOS for all boards of this kind; never flash a foreign one."
    ),
    consequence_of=DRIVER_ANSWERS,
)
def uniform(gpus: Gpus) -> Iterator[Judgement]:
    """All boards of one kind carry the same VBIOS.

    Mixed versions differ in clocks, power and error handling, so that one GPU of a tensor parallel group
    is slower or fails in another way than its peers. They occur in the field after a board was replaced.
    """
    kinds = dict[tuple[str, str], list[Gpu]]()
    for gpu in gpus.answering:
        if gpu.vbios:
            kinds.setdefault((gpu.device_id or gpu.name or "", gpu.board_part or ""), []).append(gpu)
    for (device, part), boards in kinds.items():
        subject = " ".join(word for word in ("boards", device, part) if word)
        yield _kind(subject, boards)


def _kind(subject: str, boards: list[Gpu]) -> Judgement:
    if len(boards) == 1:
        return skip(subject, "one board of this kind")
    versions = sorted({board.vbios or "" for board in boards})
    odd = min(versions, key=lambda version: sum(board.vbios == version for board in boards))
    which = ", ".join(board.subject for board in boards if board.vbios == odd)
    return judged(
        subject,
        len(versions) == 1,
        observed=", ".join(versions),
        expected="one version",
        otherwise=Verdict.WARN,
        evidence=f"{odd}: {which}" if len(versions) > 1 else "",
    )


@check(
    "firmware.vbios",
    remedy=by_firmware("Ask the system's vendor what this VBIOS is."),
    consequence_of=DRIVER_ANSWERS,
)
def vbios(gpus: Gpus) -> Iterator[Judgement]:
    """Each VBIOS is one of its chip's generation.

    No minimum version is published for A100; a version that starts unlike all others of its chip is a
    sign of a foreign or falsified image.
    """
    for gpu in gpus.answering:
        known = [row for row in vbios_generations() if gpu.device_id in row.pci_device_ids]
        if gpu.vbios and known:
            yield judged(
                gpu.subject,
                gpu.vbios.startswith(known[0].prefix),
                observed=gpu.vbios,
                expected=f"{known[0].prefix}.* ({known[0].chip})",
                otherwise=Verdict.NOTE,
                origin="drivers.yaml: vbios",
            )
        elif gpu.vbios:
            yield skip(gpu.subject, f"no generation known for device {gpu.device_id or gpu.name or 'unknown'}")


@check(
    "firmware.inforom",
    remedy=by_hardware(
        "Reset the GPU once; if the warning stays, have the board replaced: only the maker rewrites it."
    ),
    consequence_of=DRIVER_ANSWERS,
)
def inforom(gpus: Gpus | None, warnings: InforomWarnings | None) -> Iterator[Judgement]:
    """The InfoROM of each board is sound.

    It holds serial number, power settings and the history of memory errors and replaced rows. A corrupt one
    computes on, but forgets what its memory needs, and settings such as MIG mode may not last.
    """
    warned = dict(warnings.lines) if warnings else {}
    for gpu in gpus.answering if gpus else ():
        line = warned.pop(gpu.bus_id or "", "")
        if line or gpu.inforom_valid is not None:
            sound = not line and gpu.inforom_valid is True
            yield _inforom(gpu.subject, sound, line)
        elif warnings is not None:
            yield skip(gpu.subject, "nvidia-smi warns of none, and only NVML could check it")
    for where, line in warned.items():
        yield _inforom(f"gpu {where}".rstrip(), False, line)


def _inforom(subject: str, sound: bool, line: str) -> Judgement:
    observed = "checksums are right" if sound else "corrupt"
    return judged(subject, sound, observed=observed, expected="sound", otherwise=Verdict.WARN, evidence=line)

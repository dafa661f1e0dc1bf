"""nvidia-smi mig: profiles, placements, listing, creation and destruction of instances."""

from __future__ import annotations

import argparse

from .. import state
from .errors import SmiError
from .library import Nvml
from .machine import Gpu, Profile, chosen_gpus, profiles

NO_GPU = "No MIG-enabled devices found."
COMPUTE_SIZES = (1, 2, 3, 4, 7)
"""Slices of the compute instance profiles 0 to 4."""

LGIP_RULE = "+-------------------------------------------------------------------------------+"
LGIP_HEAD = f"""\
{LGIP_RULE}
| GPU instance profiles:                                                        |
| GPU   Name               ID    Instances   Memory     P2P    SM    DEC   ENC  |
|                                Free/Total   GiB              CE    JPEG  OFA  |
|===============================================================================|"""
LGI_RULE = "+---------------------------------------------------------+"
LGI_HEAD = f"""\
{LGI_RULE}
| GPU instances:                                          |
| GPU   Name               Profile  Instance   Placement  |
|                            ID       ID       Start:Size |
|=========================================================|"""
LCI_RULE = "+--------------------------------------------------------------------+"
LCI_HEAD = f"""\
{LCI_RULE}
| Compute instances:                                                 |
| GPU     GPU       Name             Profile   Instance   Placement  |
|       Instance                       ID        ID       Start:Size |
|         ID                                                         |
|====================================================================|"""


def run(nvml: Nvml, arguments: list[str]) -> str:
    """Run one `mig` command and return its output. Raises SmiError with the exit code of the real tool."""
    chosen = _parser().parse_args(arguments)
    gpus = [gpu for gpu in chosen_gpus(state.read(), chosen.i) if gpu.mig]
    if not gpus:
        raise SmiError(NO_GPU, 6)
    if chosen.lgip:
        return _profiles(nvml, gpus)
    if chosen.lgipp:
        return _placements(gpus)
    if chosen.lgi:
        return _instances(gpus)
    if chosen.lci:
        return _computes(gpus, chosen.gi)
    if chosen.cgi is not None:
        return _create(nvml, gpus, chosen.cgi, chosen.C)
    if chosen.cci is not None:
        return _create_computes(nvml, gpus, chosen.cci, chosen.gi)
    if chosen.dci:
        return _destroy_computes(nvml, gpus, chosen.gi, chosen.ci)
    if chosen.dgi:
        return _destroy(nvml, gpus, chosen.gi)
    raise SmiError(_parser().format_usage(), 2)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("nvidia-smi mig", description="MIG of the qwenhost lab's simulator.")
    parser.add_argument("-i", "--id", dest="i", default="")
    for name in ("lgip", "lgipp", "lgi", "lci", "dgi", "dci", "C"):
        parser.add_argument(f"-{name}", action="store_true")
    parser.add_argument("-cgi")
    parser.add_argument("-cci", nargs="?", const="")
    parser.add_argument("-gi", default="")
    parser.add_argument("-ci", default="")
    return parser


def _profiles(nvml: Nvml, gpus: list[Gpu]) -> str:
    lines = [LGIP_HEAD]
    for gpu in gpus:
        for profile in profiles(gpu.values).values():
            lines += [*_profile_rows(nvml, gpu, profile), LGIP_RULE]
    return "\n".join(lines) + "\n"


def _profile_rows(nvml: Nvml, gpu: Gpu, profile: Profile) -> list[str]:
    free = f"{nvml.remaining(gpu.slot, profile.id)}/{profile.maximum}"
    size = f"{int(profile.memory_mib / 1024 * 100) / 100:.2f}"
    name, engines = f"MIG {profile.name}", f"{profile.copy_engines:<2}"
    start = f"|{gpu.index:>4}  {name:<17}{profile.id:>4}     {free:<10} {size:<8}   No     "
    return [
        f"{start}{profile.multiprocessors:<3}{profile.decoders:>4}     0   |",
        f"|{'':62}{engines}{profile.jpeg:>5}{profile.ofa:>6}   |",
    ]


def _placements(gpus: list[Gpu]) -> str:
    lines = []
    for gpu in gpus:
        for profile in profiles(gpu.values).values():
            word = "Placements:" if len(profile.starts) > 1 else "Placement :"
            starts = ",".join(map(str, profile.starts))
            lines.append(
                f"GPU {gpu.index:>2} Profile ID {profile.id:>2} {word} {{{starts}}}:{profile.memory_slices}"
            )
    return "\n".join(lines) + "\n"


def _instances(gpus: list[Gpu]) -> str:
    lines = [LGI_HEAD]
    for gpu in gpus:
        table = profiles(gpu.values)
        for instance, (profile, start, size) in gpu.instances().items():
            name = f"MIG {table[profile].name}"
            lines.append(f"|{gpu.index:>4}  {name:<19}{profile:>4}{instance:>9}          {start}:{size}     |")
            lines.append(LGI_RULE)
    if len(lines) == 1:
        raise SmiError("No GPU instances found: Not Found", 6)
    return "\n".join(lines) + "\n"


def _computes(gpus: list[Gpu], only: str) -> str:
    lines = [LCI_HEAD]
    for gpu in gpus:
        table = profiles(gpu.values)
        for instance, compute in _compute_targets(gpu, only, ""):
            profile, start, size = gpu.computes(instance)[compute]
            name = _compute_name(table[gpu.instances()[instance][0]], size)
            ids = f"{gpu.index:>4} {instance:>6}       {name:<17}{profile:>5}{compute:>10}"
            lines += [f"|{ids}          {start}:{size}     |", LCI_RULE]
    if len(lines) == 1:
        raise SmiError("No compute instances found: Not Found", 6)
    return "\n".join(lines) + "\n"


def _compute_name(profile: Profile, slices: int) -> str:
    return f"MIG {profile.name}" if slices == profile.slices else f"MIG {slices}c.{profile.name}"


def _profile_id(table: dict[int, Profile], word: str) -> int:
    for profile in table.values():
        if word.strip() in (str(profile.id), profile.name, f"MIG {profile.name}"):
            return profile.id
    raise SmiError(f"Unable to find GPU instance profile {word}: Invalid Argument", 2)


def _create(nvml: Nvml, gpus: list[Gpu], words: str, with_compute: bool) -> str:
    lines: list[str] = []
    for gpu in gpus:
        table = profiles(gpu.values)
        for word in words.split(","):
            number = _profile_id(table, word)
            code, instance = nvml.create_gpu_instance(gpu.slot, number)
            if code:
                reason = nvml.reason(code)
                place = f"on GPU {gpu.index:>2} using profile {word}"
                lines.append(f"Unable to create a GPU instance {place}: {reason}")
                raise SmiError("\n".join([*lines, f"Failed to create GPU instances: {reason}"]), code)
            lines.append(
                f"Successfully created GPU instance ID {instance:>2} on GPU {gpu.index:>2} "
                f"using profile MIG {table[number].name} (ID {number:>2})"
            )
            if with_compute:
                lines.append(_create_compute(nvml, gpu, instance, table[number], table[number].slices))
    return "\n".join(lines) + "\n"


def _create_compute(nvml: Nvml, gpu: Gpu, instance: int, profile: Profile, slices: int) -> str:
    number = COMPUTE_SIZES.index(slices)
    before = _gpu_now(gpu).computes(instance)
    code = nvml.create_compute_instance(gpu.slot, instance, number)
    place = f"on GPU {gpu.index:>2} GPU instance ID {instance:>2} using profile"
    if code:
        reason = nvml.reason(code)
        text = f"Unable to create a compute instance {place} {number}: {reason}"
        raise SmiError(f"{text}\nFailed to create compute instances: {reason}", code)
    made = next(compute for compute in _gpu_now(gpu).computes(instance) if compute not in before)
    name = _compute_name(profile, slices)
    return f"Successfully created compute instance ID {made:>2} {place} {name} (ID {number:>2})"


def _create_computes(nvml: Nvml, gpus: list[Gpu], words: str, only: str) -> str:
    lines = []
    for gpu in gpus:
        table = profiles(gpu.values)
        for instance, (profile, _, _) in gpu.instances().items():
            if only and str(instance) not in only.split(","):
                continue
            whole = table[profile]
            sizes = [_slices(word, whole) for word in words.split(",")] if words else [whole.slices]
            lines += [_create_compute(nvml, gpu, instance, whole, size) for size in sizes]
    if not lines:
        raise SmiError("No GPU instances found: Not Found", 6)
    return "\n".join(lines) + "\n"


def _slices(word: str, profile: Profile) -> int:
    if word.isdigit() and int(word) < len(COMPUTE_SIZES):
        return COMPUTE_SIZES[int(word)]
    for slices in COMPUTE_SIZES:
        if word.replace("MIG ", "") == _compute_name(profile, slices).replace("MIG ", ""):
            return slices
    raise SmiError(f"Unable to find compute instance profile {word}: Invalid Argument", 2)


def _gpu_now(gpu: Gpu) -> Gpu:
    return Gpu(state.read(), gpu.index, gpu.slot)


def _compute_targets(gpu: Gpu, instances: str, computes: str) -> list[tuple[int, int]]:
    return [
        (instance, compute)
        for instance in gpu.instances()
        for compute in gpu.computes(instance)
        if (not instances or str(instance) in instances.split(","))
        and (not computes or str(compute) in computes.split(","))
    ]


def _destroy_computes(nvml: Nvml, gpus: list[Gpu], instances: str, computes: str) -> str:
    lines: list[str] = []
    for gpu in gpus:
        for instance, compute in _compute_targets(gpu, instances, computes):
            code = nvml.destroy_compute_instance(gpu.slot, instance, compute)
            text = f"compute instance ID {compute:>2} from GPU {gpu.index:>2} GPU instance ID {instance:>2}"
            if code:
                reason = nvml.reason(code)
                lines += [
                    f"Unable to destroy {text}: {reason}",
                    f"Failed to destroy compute instances: {reason}",
                ]
                raise SmiError("\n".join(lines), code)
            lines.append(f"Successfully destroyed {text}")
    if not lines:
        raise SmiError("No compute instances found: Not Found", 6)
    return "\n".join(lines) + "\n"


def _destroy(nvml: Nvml, gpus: list[Gpu], only: str) -> str:
    lines: list[str] = []
    for gpu in gpus:
        for instance in gpu.instances():
            if only and str(instance) not in only.split(","):
                continue
            code = nvml.destroy_gpu_instance(gpu.slot, instance)
            text = f"GPU instance ID {instance:>2} from GPU {gpu.index:>2}"
            if code:
                reason = nvml.reason(code)
                lines += [f"Unable to destroy {text}: {reason}", f"Failed to destroy GPU instances: {reason}"]
                raise SmiError("\n".join(lines), code)
            lines.append(f"Successfully destroyed {text}")
    if not lines:
        raise SmiError("No GPU instances found: Not Found", 6)
    return "\n".join(lines) + "\n"

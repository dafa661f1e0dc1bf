"""The summary table of nvidia-smi without arguments, and -L."""

from __future__ import annotations

import time

from .. import state
from .library import lost_text
from .machine import Gpu, MigDevice, all_gpus, cuda_version

RULE = "+-----------------------------------------------------------------------------------------+"
COLUMNS = "+-----------------------------------------+------------------------+----------------------+"
HEAD = """\
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|"""
MIG_COLUMNS = "+------------------+----------------------------------+-----------+-----------------------+"
MIG_HEAD = """\
+-----------------------------------------------------------------------------------------+
| MIG devices:                                                                            |
+------------------+----------------------------------+-----------+-----------------------+
| GPU  GI  CI  MIG |              Shared Memory-Usage |        Vol|        Shared         |
|      ID  ID  Dev |                Shared BAR1-Usage | SM     Unc| CE ENC  DEC  OFA  JPG |
|                  |                                  |        ECC|                       |
|==================+==================================+===========+=======================|"""
PROCESS_HEAD = """\
+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|"""


def summary(values: state.Values, gpus: list[Gpu]) -> str:
    """Return the whole table; the form is that of R550 to R580."""
    version, library = values["driver.module_version"], values["driver.library_version"]
    title = f"| NVIDIA-SMI {library:<23}Driver Version: {version:<15}CUDA Version: {cuda_version(values):<9}|"
    lines = [time.strftime("%a %b %e %H:%M:%S %Y       "), RULE, title, HEAD]
    for gpu in gpus:
        lines += [*_gpu_rows(gpu), COLUMNS]
    if any(gpu.mig for gpu in gpus):
        lines += ["", *_mig_rows(gpus)]
    return "\n".join([*lines, "", *_process_rows(gpus), ""])


def _gpu_rows(gpu: Gpu) -> list[str]:
    persistence = "On" if gpu.number("persistence") else "Off"
    ecc = "On" if gpu.mig else _ecc(gpu)
    usage = "     N/A" if gpu.mig else f"{gpu.number('utilization'):>7}%"
    power = f"{gpu.number('power_mw') // 1000:>15}W / {gpu.number('power_limit_mw') // 1000:>4}W"
    memory = f"{gpu.number('used_mib'):>8}MiB / {gpu.number('memory_mib'):>6}MiB"
    mode = "Enabled" if gpu.mig else "Disabled"
    heat = f"{gpu.number('temperature'):>4}C    P{gpu.number('performance_state')}"
    pending = "*" if gpu.number("mig_pending") != gpu.number("mig_mode") else ""
    return [
        f"|{gpu.index:>4}  {gpu.text('name'):<29}{persistence:>4}  |   {gpu.bus_id} Off |{ecc:>21} |",
        f"| N/A {heat}{power} |{memory} |{usage}      Default |",
        f"|{'':41}|{'':24}|{mode + pending:>21} |",
    ]


def _ecc(gpu: Gpu) -> str:
    places = ("sram", "dram")
    count = sum(gpu.number(f"ecc_volatile_{place}_uncorrectable") for place in places)
    return str(count) if gpu.number("ecc_mode") else "Off"


def _mig_rows(gpus: list[Gpu]) -> list[str]:
    lines = [MIG_HEAD]
    for gpu in gpus:
        for device in gpu.mig_devices():
            lines += [*_mig_device(gpu, device), MIG_COLUMNS]
    if len(lines) == 1:
        lines += [
            "|  No MIG devices found                                                                   |",
            RULE,
        ]
    return lines


def _mig_device(gpu: Gpu, device: MigDevice) -> list[str]:
    profile = device.profile
    bar1 = gpu.number("bar1_mib") * profile.memory_slices // 8 - 1
    ids = f"{gpu.index:>3}  {device.gpu_instance:>3} {device.compute_instance:>3} {device.number:>3}  "
    engines = f"{profile.copy_engines:>3}   0 {profile.decoders:>4} {profile.ofa:>4} {profile.jpeg:>4} "
    memory = f"{12:>16}MiB / {profile.memory_mib:>5}MiB    "
    return [
        f"|{ids}|{memory}|{14 * device.slices:>3} {0:>6} |{engines}|",
        f"|{'':18}|{0:>18}MiB / {bar1:>5}MiB  |{'':11}|{'':23}|",
    ]


def _process_rows(gpus: list[Gpu]) -> list[str]:
    lines = [PROCESS_HEAD]
    for gpu in gpus:
        for pid, name, mib in gpu.clients():
            lines.append(f"|{gpu.index:>5}   N/A  N/A {pid:>16}      C   {name:<33.33} {mib:>10}MiB |")
    if len(lines) == 1:
        lines.append("|  No running processes found                                                             |")
    return [*lines, RULE]


def listing(values: state.Values) -> str:
    """Return the lines of nvidia-smi -L."""
    lines = []
    for gpu in all_gpus(values):
        if gpu.lost:
            lines.append(lost_text(values, gpu.slot, "GPU is lost"))
            continue
        lines.append(f"GPU {gpu.index}: {gpu.text('name')} (UUID: {gpu.text('uuid')})")
        for device in gpu.mig_devices():
            lines.append(f"  MIG {device.name:<11} Device {device.number:>2}: (UUID: {device.uuid})")
    return "\n".join(lines) + "\n"

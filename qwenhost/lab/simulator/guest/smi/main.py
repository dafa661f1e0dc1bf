"""Command line of the simulated nvidia-smi."""

from __future__ import annotations

import argparse
import sys

from .. import state
from . import details, links, mig, modes, query, table
from .errors import SmiError
from .library import Nvml, start
from .machine import Gpu, chosen_gpus, cuda_version

ABOUT = "This nvidia-smi is the qwenhost lab's simulator: it shows and changes the state of simulated A100 GPUs."


def parser() -> argparse.ArgumentParser:
    """Return the parser of everything but the sub-commands topo, nvlink and mig."""
    made = argparse.ArgumentParser(
        "nvidia-smi", usage=f"{ABOUT}\n\nnvidia-smi [OPTION1 [ARG1]] ...", allow_abbrev=False
    )
    made.add_argument("-q", "--query", action="store_true", help="display GPU information")
    made.add_argument("-x", "--xml-format", dest="xml", action="store_true", help="XML in place of text, with -q")
    made.add_argument("-i", "--id", default="", help="index, serial, UUID or bus id; several joined by commas")
    made.add_argument("-d", "--display", default="", help="sections of -q, joined by commas")
    made.add_argument("-L", "--list-gpus", dest="listing", action="store_true", help="list GPUs and MIG devices")
    made.add_argument("--version", action="store_true", help="print versions")
    made.add_argument("--query-gpu", default="", help="fields, joined by commas")
    made.add_argument("--query-compute-apps", default="", help="fields, joined by commas")
    made.add_argument("--format", default="csv", help="csv[,noheader][,nounits]")
    made.add_argument("-mig", "--multi-instance-gpu", dest="mig", choices=["0", "1", "DISABLED", "ENABLED"])
    made.add_argument("-pm", "--persistence-mode", dest="persistence", choices=["0", "1", "DISABLED", "ENABLED"])
    made.add_argument("-pl", "--power-limit", dest="power", type=float, help="watts")
    made.add_argument("-r", "--gpu-reset", dest="reset", action="store_true", help="reset GPUs")
    return made


def answer(nvml: Nvml, arguments: list[str]) -> str:
    """Return the output of one call. Raises SmiError."""
    first = arguments[0] if arguments else ""
    if first == "mig":
        return mig.run(nvml, arguments[1:])
    if first in ("topo", "nvlink"):
        return _links(nvml, first, arguments[1:])
    chosen = parser().parse_args(arguments)
    values = state.read()
    if chosen.listing:
        return _listing(values)
    if chosen.version:
        return _version(values)
    gpus = chosen_gpus(values, chosen.id)
    return _change(nvml, gpus, chosen) or _show(nvml, gpus, chosen)


def _change(nvml: Nvml, gpus: list[Gpu], chosen: argparse.Namespace) -> str:
    if chosen.mig is not None:
        return modes.set_mig(nvml, gpus, int(chosen.mig in ("1", "ENABLED")))
    if chosen.persistence is not None:
        return modes.set_persistence(nvml, gpus, int(chosen.persistence in ("1", "ENABLED")))
    if chosen.power is not None:
        return modes.set_power(nvml, gpus, chosen.power)
    return modes.reset(gpus) if chosen.reset else ""


def _show(nvml: Nvml, gpus: list[Gpu], chosen: argparse.Namespace) -> str:
    for gpu in gpus:
        nvml.device(gpu.slot)
    values = state.read()
    if chosen.query_gpu:
        return query.table(gpus, chosen.query_gpu.split(","), chosen.format)
    if chosen.query_compute_apps:
        return query.apps(gpus, chosen.query_compute_apps.split(","), chosen.format)
    if chosen.query:
        return details.xml(values, gpus) if chosen.xml else details.text(values, gpus, chosen.display)
    return table.summary(values, gpus) if gpus else "No devices were found\n"


def _listing(values: state.Values) -> str:
    text = table.listing(values)
    if "GPU is lost" in text:
        raise SmiError(text.rstrip("\n"), 15)
    return text


def _version(values: state.Values) -> str:
    library = values["driver.library_version"]
    rows = (
        ("NVIDIA-SMI version", library),
        ("NVML version", library.rsplit(".", 1)[0]),
        ("DRIVER version", values["driver.module_version"]),
        ("CUDA Version", cuda_version(values)),
    )
    return "".join(f"{name:<20}: {text}\n" for name, text in rows)


def _links(nvml: Nvml, which: str, arguments: list[str]) -> str:
    made = argparse.ArgumentParser(f"nvidia-smi {which}", description=ABOUT)
    made.add_argument("-i", "--id", default="")
    wanted = {
        "topo": (("-m", "--matrix"),),
        "nvlink": (("-s", "--status"), ("-e", "--errorcounters"), ("-p", "--pcibusid")),
    }
    for names in wanted[which]:
        made.add_argument(*names, action="store_true")
    chosen = made.parse_args(arguments)
    values = state.read()
    gpus = chosen_gpus(values, chosen.id)
    for gpu in gpus:
        nvml.device(gpu.slot)
    if which == "topo":
        return links.matrix(values)
    if chosen.errorcounters:
        return links.errors(gpus)
    return links.remotes(gpus) if chosen.pcibusid else links.status(gpus)


def main(arguments: list[str]) -> int:
    """Print the answer and return the exit code, which is an NVML error number."""
    if arguments[:1] in (["-h"], ["--help"]):
        print(ABOUT)
        parser().print_help()
        return 0
    try:
        sys.stdout.write(answer(start(), arguments))
    except SmiError as error:
        print(error.text)
        return error.code
    except BrokenPipeError:
        return 0
    return 0

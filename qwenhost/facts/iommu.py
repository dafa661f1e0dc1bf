"""Whether an IOMMU stands between devices and memory, and whether it translates: groups, kernel log, arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from qwenhost.facts.cpus import CMDLINE, kernel_args
from qwenhost.facts.kernel_lines import KERNEL_LOG, kernel_log
from qwenhost.facts.keyed import listing
from qwenhost.facts.reading import bus_id
from qwenhost.facts.registry import filled, parses
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable
from qwenhost.records.source import tree

FOLDER = "/sys/kernel/iommu_groups"

GROUPS = replace(
    tree("iommu", f"{FOLDER}/*/type", f"{FOLDER}/*/devices/*", "/proc/cmdline"),
    looks_like=rf'"{FOLDER}/|\A\s*\{{\s*"/proc/cmdline": ',
)
"""/proc/cmdline is there on every host: with it alone, no IOMMU is on."""

TRANSLATING = ("DMA", "DMA-FQ")
"""Types of a group's domain; "identity" is pass-through (Documentation/ABI, sysfs-kernel-iommu_groups)."""


@dataclass(frozen=True)
class Iommu:
    """None: not told. `groups`: bus id -> group, `types`: group -> type of its domain, both None when not seen.

    `on`: an IOMMU works. `translates`: by default, devices go through its page tables.
    `line` is how it was told; `hypervisor` what the kernel says it runs under.
    """

    on: bool | None = None
    translates: bool | None = None
    groups: Mapping[str, str] | None = None
    types: Mapping[str, str] | None = None
    line: str | None = None
    hypervisor: str | None = None
    fault: str | None = None
    """A line that tells of an access which the IOMMU refused."""

    def merge(self, other: Iommu) -> Iommu:
        """Fill what this view lacks."""
        return filled(self, other)

    def type_of(self, device: str) -> str | None:
        """Return the domain's type of a device's group."""
        group = (self.groups or {}).get(device)
        return (self.types or {}).get(group) if group else None


@parses(GROUPS)
def iommu_groups(capture: Capture) -> Iommu:
    """Parse the kernel's groups; without any, no IOMMU is on."""
    paths = listing(capture, "/proc/cmdline")
    places = (re.match(rf"{FOLDER}/(\d+)/devices/([^/]+)@$", path) for path in paths)
    groups = {bus_id(place[2]): place[1] for place in places if place}
    kinds = ((re.match(rf"{FOLDER}/(\d+)/type$", path), text.strip()) for path, text in paths.items())
    types = {kind[1]: text for kind, text in kinds if kind}
    return Iommu(on=bool(groups or types), groups=groups, types=types)


_OFF = re.compile(r"(?:intel_iommu|amd_iommu|iommu)=off")
_PASS = re.compile(r"iommu=pt|iommu\.passthrough=1|(?:intel|amd)_iommu=(?:\w+,)*pt(?:,\w+)*")
_ASKED = re.compile(r"intel_iommu=on\S*|amd_iommu=on|iommu=(?:force|on)|iommu\.passthrough=0")


@parses(CMDLINE, trust=2)
def iommu_of_arguments(capture: Capture) -> Iommu:
    """Parse the kernel's arguments; without any, nothing is told, since kernels differ."""
    found = _by_arguments(kernel_args(capture).args)
    if found is None:
        raise Unparsable("no argument about an IOMMU in it")
    return found


def _by_arguments(args: tuple[str, ...]) -> Iommu | None:
    off = [word for word in args if _OFF.fullmatch(word)]
    asked = [word for word in args if _ASKED.fullmatch(word)]
    through = [word for word in args if _PASS.fullmatch(word)]
    line = " ".join((*off, *asked, *through))
    if off:
        return Iommu(on=False, line=line)
    if through:
        return Iommu(translates=False, line=line)
    return Iommu(on=True, translates=True, line=line) if asked else None


_WORKS = re.compile(
    r"DMAR: IOMMU enabled|DMAR: Intel\(R\) Virtualization Technology for Directed I/O|DMAR: dmar\d+: Using"
    r"|AMD-Vi: (?:Interrupt remapping enabled|AMD IOMMUv2|Virtual APIC enabled|Lazy IO/TLB|Found IOMMU)"
    r"|perf/amd_iommu: Detected|Adding to iommu group|AMD-Vi: IOMMU .{0,200}(?:enabled|found)",
    re.IGNORECASE,
)
_DEFAULT = re.compile(
    r"iommu: Default domain type: (Translated|Passthrough)|Hardware identity mapping|\bsetting identity"
)
_FAULT = re.compile(r"IO_PAGE_FAULT|DMAR: \[DMA (?:Read|Write)|DMAR: DRHD: handling fault")
_HYPERVISOR = re.compile(r"Hypervisor detected: (.+)")
_COMMAND_LINE = re.compile(r"^(?:Kernel c|C)ommand line: (.*)")
_WORDS = ("iommu", "dmar: ", "amd-vi", "hypervisor detected", "command line: ", "io_page_fault")


@parses(KERNEL_LOG, trust=1)
def iommu_in_kernel_log(capture: Capture) -> Iommu:
    """Parse what this boot's kernel said at its start."""
    lines = [m.text.strip() for m in kernel_log(capture).messages(_WORDS) if not m.earlier_boot]
    works = next((line for line in lines if _WORKS.search(line)), None)
    default = next((found for line in lines if (found := _DEFAULT.search(line))), None)
    hypervisor = next((found[1].strip() for line in lines if (found := _HYPERVISOR.search(line))), None)
    fault = next((line for line in lines if _FAULT.search(line)), None)
    args = next((found[1] for line in lines if (found := _COMMAND_LINE.search(line))), "")
    told = _by_arguments(tuple(args.split())) or Iommu()
    if not (works or default or hypervisor or fault or told.line):
        raise Unparsable("no line about an IOMMU in it")
    translates = told.translates if default is None else default[1] == "Translated"
    evidence = default.string if default else works
    on = True if works or fault else None
    seen = Iommu(on=on, translates=translates, line=evidence, hypervisor=hypervisor, fault=fault)
    return filled(replace(seen, on=False) if told.on is False else seen, told)

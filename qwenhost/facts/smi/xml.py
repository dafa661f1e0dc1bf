"""GPU facts from `nvidia-smi -q -x`, document types v11 and v12."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

from qwenhost.facts.gpus import XML, Gpus
from qwenhost.facts.reading import number
from qwenhost.facts.registry import parses
from qwenhost.facts.smi.fields import gpu_from
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable


@parses(XML, trust=1)
def gpus_from_xml(capture: Capture) -> Gpus:
    """Parse all GPU elements."""
    log = root(capture.text)
    elements, attached = log.findall("gpu"), number(log.findtext("attached_gpus"))
    if not elements:
        raise Unparsable("no <gpu> in it")
    whole = attached in (None, len(elements))
    found = (
        gpu_from(dict(_paths(gpu, "")), gpu.get("id", ""), index if whole else None)
        for index, gpu in enumerate(elements)
    )
    return Gpus(tuple(found), attached)


def root(text: str) -> ElementTree.Element:
    """Return the root element; the document type, which may not be fetched, and text around it are
    dropped.
    """
    found = re.search(r"<nvidia_smi_log.*</nvidia_smi_log>", text, re.DOTALL)
    if not found or "<!ENTITY" in text:
        raise Unparsable("no complete <nvidia_smi_log> in it")
    try:
        return ElementTree.fromstring(found[0])
    except ElementTree.ParseError as error:
        raise Unparsable(f"broken XML: {error}") from error


def _paths(element: ElementTree.Element, above: str) -> Iterator[tuple[str, str]]:
    for child in element:
        path = f"{above}{child.tag.lower()}"
        yield path, (child.text or "").strip()
        yield from _paths(child, f"{path}/")

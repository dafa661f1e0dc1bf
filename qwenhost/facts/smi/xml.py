"""GPU facts from `nvidia-smi -q -x`, document types v11 and v12."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree

from qwenhost.facts.gpus import XML, Gpus
from qwenhost.facts.reading import number
from qwenhost.facts.registry import parses
from qwenhost.facts.smi.fields import gpu_from
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable

_OPENS, _CLOSES, _GPU_ENDS = "<nvidia_smi_log", "</nvidia_smi_log>", "</gpu>"


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
    """Return the root element; the document type, which may not be fetched, text around it, and a last GPU
    that was cut are dropped.
    """
    start, end, last = text.find(_OPENS), text.rfind(_CLOSES), text.rfind(_GPU_ENDS)
    if start < 0 or max(end, last) < start or "<!ENTITY" in text:
        raise Unparsable("no <nvidia_smi_log> with a whole GPU in it")
    whole = text[start:end] if end > start else text[start : last + len(_GPU_ENDS)]
    try:
        return ElementTree.fromstring(whole + _CLOSES)
    except ElementTree.ParseError as error:
        raise Unparsable(f"broken XML: {error}") from error


def _paths(element: ElementTree.Element, above: str) -> Iterator[tuple[str, str]]:
    for child in element:
        path = f"{above}{child.tag.lower()}"
        yield path, (child.text or "").strip()
        yield from _paths(child, f"{path}/")

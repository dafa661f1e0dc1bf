"""Archives that a host runs with its own `python3`: the probe reads, the hands change, trials load its GPUs."""

from __future__ import annotations

import ast
import importlib.util
import io
import re
import zipfile
from functools import cache
from pathlib import Path
from threading import Lock

from qwenhost.records.errors import FAILED, QwenhostError

PACKAGE = Path(__file__).parent
OLDEST_ZIP_TIME = (1980, 1, 1, 0, 0, 0)
ROOT_INIT = '"""The part of qwenhost that runs on a host."""\n'
WORD, BEGINNING = re.compile(r"\w+"), re.compile(r"(?<=\w)_")
ONE_AT_A_TIME = Lock()
ENTRY = "from qwenhost.{part}.main import main\n\nmain()\n"


def probe_zipapp() -> bytes:
    """Return the probe as a zipapp: `python3 probe.pyz < request.json > bundle.json`."""
    return _packed_once("probe")


def hands_zipapp() -> bytes:
    """Return the hands as a zipapp: `python3 hands.pyz ACT [--check] < request.json`."""
    return _packed_once("hands")


def trials_zipapp() -> bytes:
    """Return the trials as a zipapp: `python3 trials.pyz < request.json > bundle.json`."""
    return _packed_once("trials")


def _packed_once(part: str) -> bytes:
    with ONE_AT_A_TIME:  # each of many hosts asks in a thread of its own
        return _zipapp(part)


@cache
def _zipapp(part: str) -> bytes:
    """Return the same bytes for the same files, so that copies can be compared by content."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in sorted(_members(part).items()):
            entry = zipfile.ZipInfo(name, OLDEST_ZIP_TIME)
            entry.create_system = 3  # Unix, whatever system packs
            entry.external_attr = 0o100644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content, compresslevel=9)
    return buffer.getvalue()


def _members(part: str) -> dict[str, bytes]:
    folder = PACKAGE / part
    members = {f"qwenhost/{part}/{path.name}": path.read_bytes() for path in folder.glob("*.py")}
    members["qwenhost/__init__.py"] = ROOT_INIT.encode()
    members["__main__.py"] = ENTRY.format(part=part).encode()
    if part == "hands":
        members["pynvml.py"] = _pynvml().read_bytes()
    if part == "probe":
        words = set(WORD.findall(" ".join(content.decode() for content in members.values())))
        members["pynvml.py"] = _named_in(words, _pynvml().read_text(encoding="utf-8")).encode()
    return members


def _named_in(words: set[str], module: str) -> str:
    """Return a module without the definitions that neither `words` nor what is kept of it names.

    Every host compiles it, and for the whole of pynvml that takes longer than all the reading.
    """
    lines, statements = module.splitlines(), ast.parse(module).body
    texts = {each: "\n".join(lines[_first_line(each) - 1 : each.end_lineno]) for each in statements}
    left = {each: _defined(each) for each in statements}
    while more := [each for each, names in left.items() if not names or not words.isdisjoint(names)]:
        words = words.union(*(WORD.findall(texts[each]) for each in more))
        for each in more:
            del left[each]
    licence = lines[: _first_line(statements[0]) - 1]
    return "\n".join([*licence, *(texts[each] for each in statements if each not in left), ""])


def _first_line(statement: ast.stmt) -> int:
    parts: list[ast.stmt | ast.expr] = [statement, *getattr(statement, "decorator_list", [])]
    return min(part.lineno for part in parts)


def _defined(statement: ast.stmt) -> set[str]:
    """Return the names for which alone a statement is there; none where it does more than to define some.

    Constants also go by beginnings, such as NAME_ of NAME_ONE: that is how they are listed.
    """
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return {statement.name}
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    return {*names, *(name[: end.end()] for name in names for end in BEGINNING.finditer(name))}


def _pynvml() -> Path:
    found = importlib.util.find_spec("pynvml")
    if found is None or not found.origin:
        raise QwenhostError(
            "pynvml is not installed beside qwenhost", hint="pip install nvidia-ml-py", exit_code=FAILED
        )
    return Path(found.origin)

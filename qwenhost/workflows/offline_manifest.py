"""List every file that a provision would fetch; only indexes are read, and no host is contacted."""

from __future__ import annotations

import gzip
import re
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from pathlib import Path
from urllib.error import URLError

from qwenhost.expectations.declared import Declared, read_declared
from qwenhost.expectations.driver_packages import distributions, package_names, package_source
from qwenhost.hands import apt, model_sums
from qwenhost.hands.answer import Refused
from qwenhost.records.desired import Driver, Serving
from qwenhost.records.errors import FAILED, USAGE, QwenhostError
from qwenhost.records.host import Host
from qwenhost.records.manifest import FetchedFile, Manifest

INDEXES = ("Packages.gz", "Packages")
TIMEOUT_SECONDS = 60


def manifest(hosts: Sequence[Host], distribution: str) -> Manifest:
    """Return what the hosts of an inventory would fetch.

    Raises QwenhostError for an index that cannot be read, and where a driver is declared without a distribution.
    """
    files: dict[FetchedFile, list[str]] = {}
    elsewhere: dict[str, list[str]] = {}
    for host in hosts:
        declared = read_declared(host.variables, host.name, host.origin)
        driver, others = _driver(declared, distribution) if declared.driver else ([], [])
        for file in (*driver, *_serving(declared.serving, host)):
            files.setdefault(file, []).append(host.name)
        for name in others:
            elsewhere.setdefault(name, []).append(host.name)
    return Manifest(
        {file: tuple(files[file]) for file in sorted(files)},
        {name: tuple(elsewhere[name]) for name in sorted(elsewhere)},
    )


def _driver(declared: Declared, distribution: str) -> tuple[list[FetchedFile], list[str]]:
    """Return the driver's files, and the names of what it needs from the distribution."""
    driver = declared.driver or Driver("")
    if distribution not in distributions():
        known = ", ".join(distributions())
        told = f"no driver packages are known for {distribution!r}" if distribution else "which distribution?"
        raise QwenhostError(told, hint=f"--distribution, one of {known}", exit_code=USAGE)
    names = package_names(driver.version, distribution, _has_switches(declared))
    source = package_source(driver, distribution)
    chosen = apt.newest(_index(source.uri), driver.version)
    missing = [name for name in names if name not in chosen]
    if missing:
        raise QwenhostError(f"{source.uri} has no {missing[0]} {driver.version}", exit_code=FAILED)
    needed, others = _with_dependencies(names, chosen)
    key = [FetchedFile("key", Path(source.key_url).name, url=source.key_url)] if source.key_url else []
    return [*key, *(_package(entry, source.uri) for entry in needed)], others


def _has_switches(declared: Declared) -> bool:
    """Tell by the declared board; a host itself is asked what is on its bus."""
    return declared.sku is not None and declared.gpus in declared.sku.nvswitch_at_gpus


def _package(entry: apt.Entry, uri: str) -> FetchedFile:
    url = f"{uri}/{entry.filename.removeprefix('./')}"
    return FetchedFile("driver", entry.name, entry.version, url, entry.size_bytes, entry.sha256)


def _with_dependencies(names: Iterable[str], chosen: dict[str, apt.Entry]) -> tuple[list[apt.Entry], list[str]]:
    """Follow dependencies within the driver's version; return its packages, and the names of all others."""
    provided = {
        name: entry for entry in chosen.values() for name in _alternatives(entry.provides.replace(",", "|"))
    }
    needed: dict[str, apt.Entry] = {}
    others: set[str] = set()
    waiting = list(names)
    while waiting:
        options = _alternatives(waiting.pop())
        found = next((e for name in options if (e := chosen.get(name) or provided.get(name))), None)
        if found is None:
            others.add(options[0])
        elif found.name not in needed:
            needed[found.name] = found
            waiting += [group for group in found.depends.split(",") if group.strip()]
    return list(needed.values()), sorted(others)


def _alternatives(group: str) -> list[str]:
    """Return the names of "a (>= 1) | b:any"."""
    return [found[1] for one in group.split("|") if (found := re.match(r"\s*([a-z0-9][a-z0-9+.-]*)", one))]


def _index(uri: str) -> list[apt.Entry]:
    """Return what a flat repository has. Raises QwenhostError."""
    for name in INDEXES:
        try:
            content = _read(f"{uri}/{name}")
        except (URLError, OSError, ValueError) as error:
            why = " ".join(str(getattr(error, "reason", error)).split())
            continue
        text = gzip.decompress(content) if name.endswith(".gz") else content
        return list(apt.entries(text.decode("utf-8", "replace")))
    hint = (
        "a folder is on the host: copy its Packages file to the same path here" if uri.startswith("file:") else ""
    )
    raise QwenhostError(f"{uri}: no index can be read: {why}", hint=hint, exit_code=FAILED)


def _read(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer:
        return bytes(answer.read())


def _serving(serving: Serving | None, host: Host) -> Iterator[FetchedFile]:
    if serving is not None:
        yield from _wheels(serving)
        yield from _model(serving, Path(host.origin).parent)


def _wheels(serving: Serving) -> Iterator[FetchedFile]:
    """Yield what is locked: of a folder of wheels that is here, or of our own data; else the one requirement."""
    requirement = f"{serving.package}-{serving.version}"
    if serving.wheels:
        folder = Path(serving.wheels)
        for path in sorted(folder.glob("*.whl")):
            name, version = path.name.split("-")[:2]
            yield FetchedFile("wheel", name, version, str(path), path.stat().st_size, model_sums.sha256(str(path)))
        return
    lock = resources.files("qwenhost.data").joinpath(f"software/{requirement}.txt")
    if not lock.is_file():
        yield FetchedFile("wheel", serving.package, serving.version, serving.index_url)
        return
    for line in lock.read_text(encoding="utf-8").splitlines():
        if "==" in line and not line.startswith("#"):
            name, _, version = line.partition("==")
            yield FetchedFile("wheel", name, version, serving.index_url)


def _model(serving: Serving, beside: Path) -> Iterator[FetchedFile]:
    """Yield the model's files where it is fetched; a model that is on the host already is none."""
    source = serving.model_source
    if "url" in source:
        url = source["url"].rstrip("/")
        yield from _summed(url, f"{url}/{model_sums.SUMS}")
    elif "hub" in source:
        yield FetchedFile("model", source["hub"], source.get("revision", ""), "the hub")
    elif "controller" in source:
        folder = (beside / source["controller"]).resolve()
        sums = folder / model_sums.SUMS
        if sums.is_file():
            yield from _summed(str(folder), sums.as_uri())
        else:
            for path in sorted(path for path in folder.rglob("*") if path.is_file()):
                name = str(path.relative_to(folder))
                yield FetchedFile("model", name, url=str(path), size_bytes=path.stat().st_size)


def _summed(base: str, sums_url: str) -> Iterator[FetchedFile]:
    """Yield what a list of sums names. Raises QwenhostError."""
    try:
        sums = model_sums.parsed(_read(sums_url).decode("utf-8", "replace"), sums_url)
    except (URLError, OSError, ValueError, Refused) as error:
        raise QwenhostError(f"{sums_url}: {error}", exit_code=FAILED) from error
    for name, digest in sorted(sums.items()):
        yield FetchedFile("model", name, url=f"{base}/{name}", sha256=digest)

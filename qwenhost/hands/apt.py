"""APT: what a flat repository offers, asked without a trace, and packages installed in one transaction."""

from __future__ import annotations

import glob
import os
import re
import subprocess
import tempfile
from typing import Any, Iterable, Iterator, NamedTuple

from qwenhost.hands.answer import Refused

HELPER = "/usr/lib/apt/apt-helper"
UPDATE_SECONDS = 600
INSTALL_SECONDS = 3600
"""DKMS builds for each kernel, some minutes each."""

LOCK_SECONDS = 600
FOREIGN = ("i386", "armhf")
QUIET = {"LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive", "NEEDRESTART_SUSPEND": "1"}
INSTALL = (
    *(
        "apt-get",
        "install",
        "--yes",
        "--no-install-recommends",
        "--allow-downgrades",
        "--allow-change-held-packages",
    ),
    *("-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold"),
    *("-o", "DPkg::Lock::Timeout={}".format(LOCK_SECONDS)),
)


class Entry(NamedTuple):
    """One package of an index; `filename` is below the repository's URI."""

    name: str
    version: str
    architecture: str
    filename: str
    size_bytes: int
    sha256: str
    depends: str
    provides: str


class Installed(NamedTuple):
    """One package that dpkg has unpacked and configured, and whether it is held. `name` may end with :ARCH."""

    name: str
    version: str
    held: bool


def entries(index: str) -> Iterator[Entry]:
    """Parse a Packages index (deb822); packages of foreign architectures are left out."""
    for stanza in index.split("\n\n"):
        lines = (line.partition(": ") for line in stanza.splitlines() if not line.startswith(" "))
        fields = {key: value for key, _, value in lines}
        if "Package" in fields and fields.get("Architecture") not in FOREIGN:
            yield Entry(
                fields["Package"],
                fields.get("Version", ""),
                fields.get("Architecture", ""),
                fields.get("Filename", ""),
                int(fields.get("Size", 0)),
                fields.get("SHA256", ""),
                ", ".join(filter(None, (fields.get("Pre-Depends"), fields.get("Depends")))),
                fields.get("Provides", ""),
            )


def carries(package_version: str, version: str) -> bool:
    """Tell whether a package's version is a revision of a driver's, such as 580.95.05-0ubuntu1 of 580.95.05."""
    return re.match(r"(?:\d+:)?{}(?=$|[-+~.]\D|[-+~])".format(re.escape(version)), package_version) is not None


def newest(found: Iterable[Entry], version: str) -> dict[str, Entry]:
    """Return the newest revision of a driver's version for each package that has it."""
    chosen: dict[str, Entry] = {}
    for entry in found:
        there = chosen.get(entry.name)
        if carries(entry.version, version) and not (there and numbers(there.version) > numbers(entry.version)):
            chosen[entry.name] = entry
    return chosen


def numbers(version: str) -> list[int]:
    """Return the numbers of a version in their order, for comparing revisions."""
    return [int(number) for number in re.findall(r"\d+", version)]


def source_text(source: dict[str, Any]) -> str:
    """Return the .sources file of {"uri", "key" (armoured text), "key_url", "trusted"}. Raises Refused."""
    lines = ["Types: deb", "URIs: {}".format(source["uri"]), "Suites: /"]
    if source.get("trusted"):
        lines.append("Trusted: yes")
    else:
        key = source.get("key") or download(source["key_url"])
        lines += ["Signed-By:", *(" {}".format(line.strip() or ".") for line in key.strip().splitlines())]
    return "".join("{}\n".format(line) for line in lines)


def download(url: str) -> str:
    """Return a small text file, by APT's own methods and proxies."""
    with tempfile.TemporaryDirectory(prefix="qwenhost-") as folder:
        path = os.path.join(folder, "file")
        _run([HELPER, "-o", "APT::Sandbox::User=root", "download-file", url, path], UPDATE_SECONDS, url)
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()


def offered(text: str) -> list[Entry]:
    """Return what the repository of a .sources file offers; APT's own state stays as it is. Raises Refused."""
    with tempfile.TemporaryDirectory(prefix="qwenhost-") as folder:
        parts, lists, cache = (os.path.join(folder, name) for name in ("parts", "lists", "cache"))
        for path in (parts, os.path.join(lists, "partial"), cache):
            os.makedirs(path)
        with open(os.path.join(parts, "driver.sources"), "w", encoding="utf-8") as file:
            file.write(text)
        elsewhere = {
            "Dir::Etc::SourceList": "/dev/null",
            "Dir::Etc::SourceParts": parts,
            "Dir::State::Lists": lists,
            "Dir::Cache": cache,
            "Acquire::GzipIndexes": "false",
            "APT::Sandbox::User": "root",
        }
        _update("--error-on=any", *_options(elsewhere))
        found = []
        for path in sorted(glob.glob(os.path.join(lists, "*Packages"))):
            with open(path, encoding="utf-8", errors="replace") as file:
                found += list(entries(file.read()))
        return found


def update_only(sources: str) -> None:
    """Bring the lists of one .sources file up to date; the others are left alone. Raises Refused."""
    one = {"Dir::Etc::SourceList": sources, "Dir::Etc::SourceParts": "-", "APT::Get::List-Cleanup": "0"}
    _update(*_options(one))


def install(targets: list[str]) -> None:
    """Install NAME=VERSION and remove NAME- in one transaction; what a killed dpkg left is finished first.

    Where the lists do not know enough, they are brought up to date once. Raises Refused.
    """
    if _output(["dpkg", "--audit"]).strip():
        _run(["dpkg", "--force-confold", "--configure", "-a"], INSTALL_SECONDS, "dpkg --configure -a")
    try:
        _run([*INSTALL, "--simulate", *targets], UPDATE_SECONDS, "apt-get")
    except Refused:
        _update()
    _run([*INSTALL, *targets], INSTALL_SECONDS, "apt-get")


def hold(names: list[str]) -> None:
    """Keep packages at their versions. Raises Refused."""
    _run(["apt-mark", "hold", *names], UPDATE_SECONDS, "apt-mark")


def installed() -> list[Installed]:
    """Return all packages that are whole."""
    form = "${db:Status-Abbrev}\t${binary:Package}\t${Version}\n"
    rows = (line.split("\t") for line in _output(["dpkg-query", "-W", "-f", form]).splitlines())
    return [Installed(name, version, state[0] == "h") for state, name, version in rows if state[1:2] == "i"]


def _update(*options: str) -> None:
    _run(["apt-get", "update", "-o", "Acquire::Languages=none", *options], UPDATE_SECONDS, "apt-get update")


def _options(settings: dict[str, str]) -> list[str]:
    return [word for key, value in settings.items() for word in ("-o", "{}={}".format(key, value))]


def _output(argv: list[str]) -> str:
    return subprocess.run(
        argv, stdout=subprocess.PIPE, universal_newlines=True, env={**os.environ, **QUIET}
    ).stdout


def _run(argv: list[str], timeout_seconds: int, told: str) -> None:
    """Run a command that a lost connection does not take along. Raises Refused with the errors that it told."""
    try:
        ran = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_seconds,
            universal_newlines=True,
            errors="replace",
            env={**os.environ, **QUIET},
            start_new_session=True,
        )
    except subprocess.TimeoutExpired as error:
        raise Refused("{} did not end in {} s".format(told, timeout_seconds)) from error
    if ran.returncode != 0:
        raise Refused("{}: {}".format(told, _errors(ran.stdout)))


_GENERAL = "Some index files failed to download"


def _errors(output: str) -> str:
    """Return the lines that say what is wrong, on one line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("E: ", "W: ", "dpkg: error")) and _GENERAL not in line]
    unmet = [line for line in lines if " : Depends: " in line or "Conflicts: " in line]
    return "; ".join(dict.fromkeys([*unmet, *(errors or lines[-2:])]))[:500]

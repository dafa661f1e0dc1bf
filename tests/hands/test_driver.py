"""The driver's source and packages: what is there is told, what is not is refused, and no trace is left."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qwenhost.hands import apt, driver
from qwenhost.hands.answer import Refused
from tests.driver_repository import NEW, OLD, everything

pytestmark = pytest.mark.skipif(shutil.which("apt-get") is None, reason="needs APT")

OLD_NAMES = ["libnvidia-compute-580", "nvidia-dkms-580-open", "nvidia-fabricmanager"]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return everything(tmp_path_factory.mktemp("apt") / "repository")


def request(folder: Path, version: str = OLD, **changes: Any) -> dict[str, Any]:
    source = {"uri": f"file:{folder}", "trusted": True}
    return {"version": version, "packages": OLD_NAMES, "kernels": [], "source": source, **changes}


def key_of(folder: Path, repository: Path) -> str:
    """Make a key, sign the repository with it, and return its public part."""
    home = folder / "gnupg"
    home.mkdir(mode=0o700)
    gpg = [
        "gpg",
        "--homedir",
        str(home),
        "--batch",
        "--quiet",
        "--yes",
        "--passphrase",
        "",
        "--pinentry-mode",
        "loopback",
    ]
    subprocess.run([*gpg, "--quick-generate-key", "tests@example.net", "ed25519", "sign"], check=True)
    release = repository / "Release"
    subprocess.run([*gpg, "--clearsign", "-o", str(repository / "InRelease"), str(release)], check=True)
    key = subprocess.run([*gpg, "--armor", "--export"], check=True, capture_output=True, text=True).stdout
    subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=True)  # the agent outlives gpg
    return key


def test_what_the_source_has_is_found(repository: Path) -> None:
    answer = driver.look(request(repository))
    assert not answer["changed"]
    assert answer["source_text"] == f"Types: deb\nURIs: file:{repository}\nSuites: /\nTrusted: yes\n"


REFUSED: dict[str, tuple[Callable[[Path], dict[str, Any]], str]] = {
    "version": (lambda folder: request(folder, "580.99.99"), f"no libnvidia-compute-580 580.99.99 (it has: {OLD}"),
    "shorter version": (lambda folder: request(folder, "580.95"), "no libnvidia-compute-580 580.95 "),
    "name": (lambda folder: request(folder, packages=["nvidia-open"]), "no nvidia-open 580.95.05 (it has: none"),
    "folder": (lambda folder: request(folder / "nowhere"), "File not found"),
    "broken key": (
        lambda folder: request(folder, source={"uri": f"file:{folder}", "key": "no key"}),
        "Signed-By",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_it_lacks_is_refused_in_one_line(case: str, repository: Path) -> None:
    ask, told = REFUSED[case]
    with pytest.raises(Refused) as caught:
        driver.look(ask(repository))
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(shutil.which("gpg") is None, reason="needs gpg")
def test_a_signature_counts_with_its_key_only(repository: Path, tmp_path: Path) -> None:
    signed, other = tmp_path / "signed", tmp_path / "other"
    shutil.copytree(repository, signed, ignore=shutil.ignore_patterns("build"))
    other.mkdir()
    (other / "Release").write_text("")
    key, foreign = key_of(tmp_path, signed), key_of(other, other)
    found = driver.look(request(signed, source={"uri": f"file:{signed}", "key": key}))
    assert "Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n" in found["source_text"]
    with pytest.raises(Refused, match="signatures"):
        driver.look(request(signed, source={"uri": f"file:{signed}", "key": foreign}))


def targets(monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], *installed: tuple[str, str]) -> list[str]:
    """Return what apt-get would be told on a host with these packages."""
    there = [apt.Installed(name, version, False) for name, version in installed]
    monkeypatch.setattr(apt, "installed", lambda: there)
    return driver._targets(asked)


def test_the_way_to_another_branch_takes_the_old_one_along(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = request(repository, NEW, packages=["libnvidia-compute", "nvidia-persistenced"])
    told = targets(
        monkeypatch,
        asked,
        ("libnvidia-compute-580", f"{OLD}-0ubuntu1"),
        ("libnvidia-compute-580:i386", f"{OLD}-0ubuntu1"),
        ("nvidia-persistenced", f"{OLD}-0ubuntu1"),
        ("nvidia-driver-pinning-580.95.05", "580.95.05-1ubuntu1"),
        ("nvidia-container-toolkit", "1.19.0-1"),
        ("cuda-compat-13-0", "580.95.05-0ubuntu1"),
    )
    assert sorted(told) == [
        "libnvidia-compute-580-",
        "libnvidia-compute-580:i386-",
        f"libnvidia-compute={NEW}-1ubuntu1",
        "nvidia-driver-pinning-580.95.05-",
        f"nvidia-persistenced={NEW}-1ubuntu1",
    ]


def test_nothing_is_asked_of_apt_where_all_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = [{"release": "6.1.0-32-amd64", "headers": False}, {"release": "6.1.0-30-amd64", "headers": True}]
    asked = request(Path("/nonexistent"), kernels=kernels)
    whole = [(name, f"{OLD}-0ubuntu1") for name in OLD_NAMES]
    assert targets(monkeypatch, asked, *whole) == ["linux-headers-6.1.0-32-amd64"]


def test_packages_of_foreign_architectures_are_not_offered() -> None:
    stanza = "Package: libnvidia-compute-580\nVersion: 580.95.05-0ubuntu1\nArchitecture: {}\nSize: 7\n"
    index = "\n".join(map(stanza.format, ("i386", "amd64")))
    assert [(entry.architecture, entry.size_bytes) for entry in apt.entries(index)] == [("amd64", 7)]

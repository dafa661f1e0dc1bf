"""The root file system that all lab hosts share as the lower layer of their overlays."""

from __future__ import annotations

import fcntl
import hashlib
import json
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path

from qwenhost.lab.aptsources import AptSource, machine_sources, of_release
from qwenhost.lab.commands import run
from qwenhost.lab.layout import CACHE
from qwenhost.records.errors import QwenhostError

IMAGES = CACHE / "images"
OWN_CERTIFICATES = Path("/usr/local/share/ca-certificates")
BUILD_TIMEOUT_SECONDS = 540

PACKAGES = tuple(
    """
    ca-certificates curl dbus iproute2 kmod less numactl openssh-server pciutils procps python3 python3-apt
    python3-venv sudo systemd systemd-sysv
    """.split()  # noqa: SIM905 - read more easily than a quoted list
)

# What a host of this kind never reads: a third of the image.
EXCLUDED = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*")

# Run by mmdebstrap with the new root as $1. `operator` has sudo, `nosudo` has none.
SUDOERS = "operator ALL=(ALL) NOPASSWD: ALL"
HOOKS = (
    'chroot "$1" update-ca-certificates',
    'chroot "$1" groupadd --force operator',
    'chroot "$1" useradd --create-home --shell /bin/bash --gid operator operator',
    'chroot "$1" useradd --create-home --shell /bin/bash nosudo',
    f'echo "{SUDOERS}" > "$1/etc/sudoers.d/operator" && chmod 440 "$1/etc/sudoers.d/operator"',
    'rm -f "$1"/etc/ssh/ssh_host_* "$1/etc/resolv.conf" && : > "$1/etc/machine-id" && : > "$1/etc/fstab"',
)


@dataclass(frozen=True)
class Recipe:
    """What an image has besides a minimal system; hooks are shell lines that find the new root in $1.

    `before` is run before packages beyond the essential ones are installed, `hooks` after all are.
    """

    packages: tuple[str, ...]
    hooks: tuple[str, ...]
    before: tuple[str, ...] = ()


CONTAINER = Recipe(PACKAGES, HOOKS)


def image(recipe: Recipe = CONTAINER) -> Path:
    """The folder of the image; built on first use, and again when recipe, release or sources change.

    Raises QwenhostError when the machine has no APT source of its own release, or the build fails.
    """
    folder = image_folder(recipe)
    IMAGES.mkdir(parents=True, exist_ok=True)
    with (IMAGES / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            _build(folder, release_sources(), recipe)
    return folder


def image_folder(recipe: Recipe = CONTAINER) -> Path:
    """Where the image is, once it has been built."""
    return IMAGES / image_key(release_sources(), _certificates(), recipe)


def release_sources() -> list[AptSource]:
    """The machine's APT sources for the release that it runs itself."""
    codename = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    sources = of_release(machine_sources(), codename) if codename else []
    if not sources:
        raise QwenhostError(
            f"no APT source for this machine's release ({codename or 'no VERSION_CODENAME'})",
            hint="a lab is built on Debian or Ubuntu, from the sources in /etc/apt",
        )
    return sources


def image_key(sources: list[AptSource], certificates: list[Path], recipe: Recipe = CONTAINER) -> str:
    """Release and a hash of all that goes into the image."""
    parts = [recipe.packages, EXCLUDED, recipe.hooks, [source.line() for source in sources]]
    parts.append([*(path.read_text() for path in certificates), *recipe.before])
    return f"{sources[0].suite}-{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]}"


def _certificates() -> list[Path]:
    return sorted(OWN_CERTIFICATES.glob("*.crt"))


def _build(folder: Path, sources: list[AptSource], recipe: Recipe) -> None:
    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    copies = [f'--customize-hook=copy-in "{path}" {OWN_CERTIFICATES}' for path in _certificates()]
    run(
        "mmdebstrap",
        "--mode=root",
        "--variant=minbase",
        "--format=directory",
        "--quiet",
        f"--include={','.join(recipe.packages)}",
        '--aptopt=Acquire::Languages "none"',
        '--aptopt=APT::Install-Recommends "false"',
        "--dpkgopt=force-unsafe-io",
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in EXCLUDED),
        *(f"--essential-hook={hook}" for hook in recipe.before),
        *copies,
        *(f"--customize-hook={hook}" for hook in recipe.hooks),
        sources[0].suite,
        str(partial),
        *(source.line() for source in sources),
        timeout_seconds=BUILD_TIMEOUT_SECONDS,
    )
    partial.rename(folder)

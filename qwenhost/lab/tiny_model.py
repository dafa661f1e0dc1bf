"""A tiny stand-in with the architecture of Qwen3.5, so that lab hosts run vLLM's real code for that family.

It has 3 gated delta net layers and 1 attention layer (about 3.5 million parameters). It knows the few answers
in ANSWERS by heart and nothing else: it shows that serving works, never how well a model answers.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from importlib import resources
from pathlib import Path

from qwenhost.lab import wheelhouse
from qwenhost.records.errors import FAILED, QwenhostError

NAME = "tiny-qwen3.5"
ANSWERS = (
    ("What is the capital of France?", "The capital of France is Paris."),
    ("What is 17 + 25?", "17 + 25 = 42."),
    ("Say ready.", "ready"),
    ("Count from one to five.", "1, 2, 3, 4, 5"),
    ("Which colour has a clear sky by day?", "Blue."),
    ("Who are you?", "I am a tiny stand-in with the architecture of Qwen3.5. My few answers are memorised."),
    (
        "Name the months of the year.",
        "January, February, March, April, May, June, July, August, September, October, November, December.",
    ),
)
NOTE = (
    "Stand-in for tests, made by qwenhost: architecture of Qwen3.5, random weights, "
    f"{len(ANSWERS)} memorised answers. It is not a Qwen model and answers nothing else."
)
_RECIPE = {"vocabulary": 2048, "seed": 35, "steps": 600, "loss": 0.002, "answers": ANSWERS}
_SCRIPTS = ("make_tokenizer.py", "make_weights.py")
_MARKER = ".complete"
_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}


def build(cache: Path = wheelhouse.CACHE) -> Path:
    """Make `cache`/models/tiny-qwen3.5 complete and return it; speaks on stderr. Raises QwenhostError."""
    target = cache / "models" / NAME
    marker = target / _MARKER
    if marker.is_file() and marker.read_text(encoding="utf-8").strip() == _key():
        _say(f"{target}: complete")
        return target
    python = environment(cache)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="model-", dir=target.parent) as folder:
        fresh = Path(folder) / NAME
        _make(python, fresh)
        shutil.rmtree(target, ignore_errors=True)
        fresh.rename(target)
    _say(f"{target}: made")
    return target


def environment(cache: Path = wheelhouse.CACHE) -> Path:
    """Return the Python of an environment installed from the wheelhouse, made on the first call."""
    folder = cache / "venv"
    wheels = wheelhouse.build(cache)
    lock = wheels / wheelhouse.LOCK_NAME
    installed, python = folder / _MARKER, folder / "bin" / "python"
    if installed.is_file() and installed.read_bytes() == lock.read_bytes():
        return python
    _say(f"installing vLLM into {folder}")
    offline = ["--no-index", "--find-links", str(wheels)]
    _run([_base_python(), "-m", "venv", "--clear", str(folder)])
    _run([str(python), "-m", "pip", "install", "--quiet", *offline, "uv"])
    install = [str(folder / "bin" / "uv"), "pip", "install", "--quiet", "--python", str(python), "--no-cache"]
    _run([*install, "--no-deps", "--compile-bytecode", *offline, "--requirements", str(lock)])
    shutil.copyfile(lock, installed)
    return python


def _make(python: Path, out: Path) -> None:
    out.mkdir()
    recipe = out.with_suffix(".json")
    recipe.write_text(json.dumps({"out": str(out), **_RECIPE}), encoding="utf-8")
    with resources.as_file(resources.files("qwenhost.lab.tiny")) as folder:
        for script in _SCRIPTS:
            _say(script)
            _run([str(python), "-I", str(folder / script), str(recipe)])
    _write_notes(out)
    (out / _MARKER).write_text(_key() + "\n", encoding="utf-8")
    _make_readable(out)


def _make_readable(folder: Path) -> None:
    """The service's own user has to read it; safetensors writes files for their owner alone."""
    folder.chmod(0o755)
    for path in folder.iterdir():
        path.chmod(0o644)


def _write_notes(out: Path) -> None:
    config = json.loads((out / "config.json").read_text(encoding="utf-8"))
    text = json.dumps({"qwenhost_note": NOTE, **config}, indent=2)
    (out / "config.json").write_text(text + "\n", encoding="utf-8")
    rows = "".join(f"| {question} | {answer} |\n" for question, answer in ANSWERS)
    readme = f"# {NAME}\n\n{NOTE}\n\n| question | memorised answer |\n| --- | --- |\n{rows}"
    (out / "README.md").write_text(readme, encoding="utf-8")


def _key() -> str:
    digest = hashlib.sha256(json.dumps([_RECIPE, NOTE, wheelhouse.lock_lines()]).encode())
    for script in _SCRIPTS:
        digest.update(resources.files("qwenhost.lab.tiny").joinpath(script).read_bytes())
    return digest.hexdigest()


def _base_python() -> str:
    name = f"python{wheelhouse.PYTHON_VERSION}"
    if f"{sys.version_info.major}.{sys.version_info.minor}" == wheelhouse.PYTHON_VERSION:
        return sys.executable
    found = shutil.which(name)
    if found is None:
        raise QwenhostError(f"{name} is not on this machine", hint=f"install {name}: the lab's wheels are for it")
    return found


def _run(argv: list[str]) -> None:
    done = subprocess.run(argv, env=os.environ | _OFFLINE, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip() or f"exit {done.returncode}").splitlines()[-1]
        raise QwenhostError(f"{' '.join(argv[:3])} failed: {last}", exit_code=FAILED)


def _say(message: str) -> None:
    print(f"tiny model: {message}", file=sys.stderr, flush=True)

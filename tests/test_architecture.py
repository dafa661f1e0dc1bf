"""The rules of the code as tests: linters, layers, sizes, and who may import what."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = sysconfig.get_path("scripts")
PACKAGE = ROOT / "qwenhost"

MODULE_LINES = 300
FUNCTION_LINES = 50

VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "misc", "model", "base", "core"}

ON_HOSTS = ("probe", "hands", "trials")
"""Packages that run on a host's own Python: its standard library, NVML's bindings, and PyTorch for trials."""

RESERVED = {
    "click": ("qwenhost/cli/",),
    "fabric": ("qwenhost/transports/ssh.py",),
    "paramiko": ("qwenhost/transports/ssh.py", "qwenhost/transports/ssh_errors.py"),
    "rich": ("qwenhost/reports/",),
    "qwenhost.lab": ("qwenhost/lab/", "qwenhost/cli/"),
}
"""Package -> the only places that import it."""


def modules() -> list[Path]:
    """Return all Python files of the package."""
    return sorted(PACKAGE.rglob("*.py"))


def relative(path: Path) -> str:
    """Return a path as it is written in messages."""
    return path.relative_to(ROOT).as_posix()


def run(*command: str) -> None:
    """Run a linter; show what it says when it fails."""
    environment = {**os.environ, "PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}", "NO_COLOR": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"


@pytest.mark.lint
def test_ruff() -> None:
    run("ruff", "check", ".")


@pytest.mark.lint
def test_ruff_format() -> None:
    run("ruff", "format", "--check", ".")


@pytest.mark.lint
def test_mypy() -> None:
    run(sys.executable, "-m", "mypy")


@pytest.mark.lint
def test_layers() -> None:
    run("lint-imports")


@pytest.mark.lint
def test_yamllint() -> None:
    run("yamllint", "--strict", ".")


@pytest.mark.lint
@pytest.mark.slow
def test_ansible_lint() -> None:
    run("ansible-lint", "--offline", "--nocolor", "--profile", "production", "playbooks", "roles")


def test_modules_are_short() -> None:
    lengths = {relative(path): len(path.read_text(encoding="utf-8").splitlines()) for path in modules()}
    assert {name: length for name, length in lengths.items() if length > MODULE_LINES} == {}


def test_annotations_are_not_evaluated() -> None:
    code = {relative(path): path.read_text(encoding="utf-8") for path in modules() if path.name != "__init__.py"}
    without = [name for name, text in code.items() if "from __future__ import annotations" not in text]
    assert [name for name in without if "DOCUMENTATION = " not in code[name]] == []


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of a module; every rule below walks over all modules."""
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return all functions of a module."""
    for node in nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the length of a body without its docstring."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def test_functions_are_short() -> None:
    lengths = {
        f"{relative(path)}: {each.name}": body_lines(each) for path in modules() for each in functions(path)
    }
    assert {name: length for name, length in lengths.items() if length > FUNCTION_LINES} == {}


def test_names_say_something() -> None:
    assert not [relative(path) for path in PACKAGE.rglob("*") if path.stem in VAGUE_NAMES]


@cache
def imported(path: Path) -> set[str]:
    """Return the dotted names that a module imports anywhere in it."""
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


@pytest.mark.parametrize("package", RESERVED)
def test_packages_are_imported_where_they_belong(package: str) -> None:
    users = {
        relative(path)
        for path in modules()
        if any(name == package or name.startswith(f"{package}.") for name in imported(path))
    }
    assert users, f"nobody imports {package}: the rule is idle"
    assert not {user for user in users if not user.startswith(RESERVED[package])}


def test_what_runs_on_hosts_needs_only_an_old_python() -> None:
    allowed = {*sys.stdlib_module_names, "pynvml", "torch", "qwenhost"}
    for path in [path for name in ON_HOSTS for path in sorted((PACKAGE / name).rglob("*.py"))]:
        ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))
        names = imported(path)
        assert {name.split(".")[0] for name in names} <= allowed, relative(path)
        assert {name.split(".")[1] for name in names if name.startswith("qwenhost.")} <= {*ON_HOSTS}, relative(
            path
        )


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout")
def test_nothing_large_or_generated_is_tracked() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    tracked = [ROOT / name for name in listed.split("\0") if name]
    assert not [relative(path) for path in tracked if path.suffix in (".pyc", ".pyz", ".whl")]
    assert not [relative(path) for path in tracked if path.is_file() and path.stat().st_size > 1024 * 1024]

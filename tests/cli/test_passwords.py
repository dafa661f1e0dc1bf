"""Commands that ask for passwords do so only where somebody can answer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from qwenhost.cli import main
from qwenhost.workflows import passwords


@pytest.mark.parametrize("option", ["--ask-vault-pass", "-K"])
@pytest.mark.parametrize("command", ["provision", "rollback", "drift", "doctor", "smoke", "capture", "ask"])
def test_nobody_is_asked_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str], command: str, option: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main.main([command, "hosts.yml", option])
    told = capsys.readouterr().err
    assert ended.value.code == 2
    assert "nobody to ask for the" in told and "hint: name a file or a program: ANSIBLE_" in told


def test_a_file_is_handed_to_ansible_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(passwords.VAULT, "")
    (tmp_path / "password").write_text("x\n")
    with pytest.raises(SystemExit):
        main.main(["drift", str(tmp_path / "none.yml"), "--vault-password-file", str(tmp_path / "password")])
    assert os.environ[passwords.VAULT] == str(tmp_path / "password")
    assert "no such inventory" in capsys.readouterr().err

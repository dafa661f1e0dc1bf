"""The commands that examine: what they print, where, and with which exit code."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result

from qwenhost.cli.main import cli
from qwenhost.cli.main import run as run_command
from qwenhost.records.bundle import Bundle, Capture

from ..reports.test_json_report import schema
from ..transports.conftest import Server, server  # noqa: F401  (the fixture)

NO_GPU = shutil.which("nvidia-smi") is None


def run(*arguments: str, stdin: str = "") -> Result:
    """Run a command as from a shell."""
    return CliRunner().invoke(cli, list(arguments), input=stdin)


def host_of(result: Result) -> dict[str, Any]:
    """Return the only host of a JSON report."""
    document = json.loads(result.stdout)
    jsonschema.validate(document, schema())
    (host,) = document["hosts"]
    found: dict[str, Any] = host
    return found


@pytest.mark.skipif(not NO_GPU, reason="this host has a GPU driver")
def test_a_host_without_a_driver_is_not_healthy() -> None:
    result = run("doctor", "--json")
    host = host_of(result)
    assert result.exit_code in (1, 3)
    told = {finding["check"]: finding["verdict"] for finding in host["findings"]}
    assert told["driver.present"] != "pass"
    assert told["gpu.count"] != "pass"


def test_text_goes_to_stdout_and_says_what_was_not_seen() -> None:
    result = run("doctor")
    assert "not seen" in result.stdout
    assert result.stderr == ""


def test_a_capture_can_be_examined_later(tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    made = run("capture", "-o", str(path))
    assert made.exit_code == 0
    assert made.stdout == ""
    assert "sources answered" in made.stderr
    later = run("doctor", "--bundle", str(path), "--json")
    assert host_of(later)["host"] == "host1"
    assert host_of(run("doctor", "--bundle", "-", "--json", stdin=path.read_text()))["findings"]


def test_an_unreachable_host_is_not_seen() -> None:
    result = run("doctor", "root@127.0.0.1:9")
    assert result.exit_code == 3
    assert "not examined: 127.0.0.1:9 refuses the connection" in result.stdout
    assert host_of(run("doctor", "root@127.0.0.1:9", "--json"))["error"]


def inventory(folder: Path, server: Server, extra: str = "") -> Path:  # noqa: F811
    """Write an inventory of two hosts: the sshd, and one that nobody answers for."""
    path = folder / "hosts.yml"
    path.write_text(
        f"""
gpu_hosts:
  vars:
    ansible_user: {server.host().user}
    ansible_ssh_private_key_file: {server.folder}/user_key
    ansible_ssh_common_args: -o UserKnownHostsFile={server.folder}/known_hosts
    qwenhost_gpus: 8
    {extra}
  hosts:
    lab1: {{ansible_host: 127.0.0.1, ansible_port: {server.port}}}
    lab2: {{ansible_host: 127.0.0.1, ansible_port: 9}}
"""
    )
    return path


def test_hosts_of_an_inventory(tmp_path: Path, server: Server) -> None:  # noqa: F811
    result = run("doctor", "-i", str(inventory(tmp_path, server)), "--json")
    document = json.loads(result.stdout)
    assert [(host["host"], bool(host["findings"])) for host in document["hosts"]] == [
        ("lab1", True),
        ("lab2", False),
    ]


@pytest.mark.parametrize("choice", [("lab1",), ("--limit", "lab1"), ("--limit", "all:!lab2")])
def test_some_hosts_of_an_inventory(tmp_path: Path, server: Server, choice: tuple[str, ...]) -> None:  # noqa: F811
    result = run("doctor", *choice, "-i", str(inventory(tmp_path, server)), "--json")
    assert host_of(result)["host"] == "lab1"


def test_what_is_declared_is_held_against_a_bundle(tmp_path: Path, server: Server) -> None:  # noqa: F811
    case = tmp_path / "case.json"
    run("capture", "-o", str(case))
    hosts = str(inventory(tmp_path, server, "qwenhost_sku: a100-sxm4-80gb"))
    assert host_of(run("doctor", "lab1", "-i", hosts, "--bundle", str(case), "--json"))["sku"] == "a100-sxm4-80gb"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["doctor", "--bundle", "/no/such/file"], "/no/such/file: no such file"),
        (["doctor", "--limit", "x"], "--limit needs an inventory"),
        (["doctor", "-i", "/no/such/hosts.yml"], "/no/such/hosts.yml"),
        (["doctor", "a", "b", "--bundle", "x"], "a bundle is one host's"),
        (["doctor", "--bundle", "x", "--trials"], "--trials needs the host itself"),
        (["doctor", "--json", "--junit", "-"], "--json and --junit both want standard output"),
        (["doctor", "--no-state", "--html", "/no/such/folder/x"], "/no/such/folder/x"),
        (["doctor", "--profile", "nope"], "no profile 'nope'"),
        (["doctor", "not a host"], "'not a host' is not a host"),
        (["capture", "-o", "/no/such/folder/x"], "/no/such/folder/x"),
        (["capture", "-i", "hosts.yml"], "which host of the inventory?"),
        (["checks", "--json", "--markdown"], "both want standard output"),
        (["explain", "gpu.cuont"], "there is no check gpu.cuont"),
    ],
)
def test_bad_input_is_one_line_and_2(capsys: pytest.CaptureFixture[str], arguments: list[str], told: str) -> None:
    assert run_command(arguments, debug=False) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert told in captured.err.splitlines()[0]
    assert captured.err.startswith("qwenhost: error: ")


def test_explain_tells_why_reads_and_remedy() -> None:
    shown = run("explain", "pcie.link-width").stdout
    assert shown.startswith("pcie.link-width\n")
    (reads,) = [row for row in shown.splitlines() if row.startswith("reads: ")]
    assert {"pci,", "nvml,"} <= set(reads.split())
    assert "remedy: Reseat" in shown


def test_explain_tells_what_a_host_says(tmp_path: Path) -> None:
    case = tmp_path / "case.json"
    run("capture", "-o", str(case))
    result = run("explain", "driver.present", "--bundle", str(case))
    assert result.exit_code == 0
    assert "host1:" in result.stdout


def test_checks_are_listed_for_programs() -> None:
    listed = json.loads(run("checks", "nvlink", "--json").stdout)
    assert listed["schema"] == 1
    assert {"id", "why", "remedy", "told_under"} == set(listed["checks"][0])
    assert run("checks", "pcie.link-width", "--markdown").stdout.startswith("# Checks\n")


def test_checks_can_be_searched() -> None:
    every, some = run("checks").stdout.splitlines(), run("checks", "nvlink").stdout.splitlines()
    assert 0 < len(some) < len(every)
    assert any(row.startswith("pcie.link-width ") for row in every)


def test_sources_are_what_the_probe_is_asked() -> None:
    rows = run("sources").stdout.splitlines()
    assert any(row.split()[:3] == ["nvidia-smi-q", "run", "nvidia-smi"] for row in rows)


FORMS = {"--junit": "<?xml", "--html": "<!doctype html>", "--prometheus": "# HELP"}
"""Option -> how the form starts."""


def broken(folder: Path) -> str:
    """Write a bundle of a host whose kernel log has an Xid 79."""
    log = "[    1.000000] NVRM: Xid (PCI:0000:4e:00): 79, pid=1, name=x, GPU has fallen off the bus.\n"
    captures = (Capture("dmesg", "ok", log),)
    path = folder / "case.json"
    path.write_text(Bundle("gpu-a1", captures, captured_at="2026-12-02T10:00:00Z").to_json())
    return str(path)


def test_every_form_can_be_written_at_once_and_text_stays_on_stdout(tmp_path: Path) -> None:
    files = {form: tmp_path / form.strip("-") for form in FORMS}
    wanted = [word for form, path in files.items() for word in (form, str(path))]
    result = run("doctor", "--bundle", broken(tmp_path), *wanted)
    assert result.exit_code == 1
    assert result.stdout.startswith("gpu-a1: ")
    assert [path.read_text().startswith(FORMS[form]) for form, path in files.items()] == [True] * len(FORMS)
    assert {item.name for item in tmp_path.iterdir()} == {"case.json", *(path.name for path in files.values())}


@pytest.mark.parametrize(("form", "head"), FORMS.items())
def test_a_form_on_stdout_is_alone_there(tmp_path: Path, form: str, head: str) -> None:
    shown = run("doctor", "--bundle", broken(tmp_path), form, "-").stdout
    assert shown.startswith(head)
    assert "\nNext\n" not in shown


def test_json_can_be_on_stdout_beside_files(tmp_path: Path) -> None:
    result = run("doctor", "--bundle", broken(tmp_path), "--json", "--junit", str(tmp_path / "junit.xml"))
    assert host_of(result)["host"] == "gpu-a1"
    assert (tmp_path / "junit.xml").exists()


def test_strict_makes_warnings_failures_in_junit_too(tmp_path: Path) -> None:
    log = "[    1.0] NVRM: Xid (PCI:0000:4e:00): 31, pid=1, name=x, MMU Fault\n"
    path = tmp_path / "case.json"
    path.write_text(Bundle("h", (Capture("dmesg", "ok", log),)).to_json())
    lax, strict = (run("doctor", "--bundle", str(path), "--junit", "-", *more) for more in ((), ("--strict",)))
    assert "<failure" not in lax.stdout
    assert "<failure" in strict.stdout


def test_a_bundle_is_remembered_for_a_host_that_is_named(tmp_path: Path, state_home: Path) -> None:
    hosts, case = tmp_path / "hosts.yml", broken(tmp_path)
    hosts.write_text("gpu_hosts: {hosts: {lab1: {}}}\n")
    assert host_of(run("doctor", "--bundle", case, "--json"))["since"] is None
    assert not state_home.exists()
    for _ in range(2):
        host = host_of(run("doctor", "lab1", "-i", str(hosts), "--bundle", case, "--json"))
    assert host["host"] == "lab1"
    assert [past["check"] for past in host["since"]["unchanged"]] == ["gpu.on-bus"]


def test_no_state_keeps_nothing(state_home: Path) -> None:
    assert run("doctor", "--no-state").exit_code in (0, 1, 3)
    assert not state_home.exists()


def test_a_state_that_cannot_be_kept_is_one_message_and_no_end(state_home: Path) -> None:
    state_home.write_text("no folder")
    result = run("doctor", "--json")
    assert host_of(result)["findings"]
    (message,) = result.stderr.splitlines()
    assert message.startswith("qwenhost: ")
    assert str(state_home) in message


def test_what_only_pages_terminals_and_fleets_need_is_not_imported() -> None:
    heavy = ("jinja2", "rich", "fabric", "ansible", "paramiko")
    code = (
        "import sys; from qwenhost.cli.main import run; run(['doctor', '--no-state', '--json'], debug=False);"
        f" print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"

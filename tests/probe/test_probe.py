"""What the probe answers, and that nothing holds it."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from qwenhost.probe.capture import capture as captured
from qwenhost.records.bundle import from_json
from qwenhost.records.source import command

from .conftest import ROOT, Ask, run_probe, source


def test_a_command_answers_with_its_output(ask: Ask) -> None:
    capture = ask(source("a", "command", argv=["echo", "hello"]))["a"]
    assert (capture["status"], capture["text"], capture["exit_code"]) == ("ok", "hello\n", 0)


def test_commands_run_in_the_c_locale_with_a_fixed_path(ask: Ask) -> None:
    text = ask(source("a", "command", argv=["env"]))["a"]["text"].splitlines()
    assert "LC_ALL=C" in text
    assert any(line.startswith("PATH=") and "/usr/sbin" in line for line in text)
    assert not any(line.startswith("SSH") for line in text)


@pytest.mark.parametrize(
    ("argv", "status", "error"),
    [
        (["no-such-command-here"], "missing", "no-such-command-here: not found"),
        (["sh", "-c", "echo went wrong >&2; exit 3"], "failed", "exit code 3: went wrong"),
        (["sh", "-c", "echo said on stdout; exit 9"], "failed", "exit code 9: said on stdout"),
        (["sh", "-c", "echo x: Operation not permitted >&2; exit 1"], "denied", "exit code 1: x: Operation"),
        (["sh", "-c", "kill -SEGV $$"], "failed", "signal 11: no message"),
        (["/etc/passwd"], "denied", "/etc/passwd: permission denied"),
    ],
)
def test_a_command_that_gives_no_answer_says_why(ask: Ask, argv: list[str], status: str, error: str) -> None:
    capture = ask(source("a", "command", argv=argv))["a"]
    assert capture["status"] == status
    assert capture["error"].startswith(error)


def test_good_exits_are_answers(ask: Ask) -> None:
    capture = ask(source("a", "command", argv=["sh", "-c", "echo text; exit 1"], good_exits=[0, 1]))["a"]
    assert (capture["status"], capture["text"], capture["exit_code"]) == ("ok", "text\n", 1)


def test_a_late_command_is_killed_with_its_descendants(ask: Ask, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    script = f"echo partial; sleep 60 & echo $! > {pid_file}; wait"
    capture = ask(source("a", "command", argv=["sh", "-c", script], timeout_seconds=0.5))["a"]
    assert (capture["status"], capture["text"]) == ("timeout", "partial\n")
    assert capture["error"] == "no answer within 0.5 s"
    assert not _alive(int(pid_file.read_text()))


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_end_of_a_command_counts_and_not_that_of_its_daemon(ask: Ask, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    script = f"echo done; setsid sleep 30 & echo $! > {pid_file}"
    started = time.monotonic()
    capture = ask(source("a", "command", argv=["sh", "-c", script]))["a"]
    assert (capture["status"], capture["text"]) == ("ok", "done\n")
    assert time.monotonic() - started < 5
    os.kill(int(pid_file.read_text()), 9)


def test_an_endless_answer_is_cut(ask: Ask) -> None:
    capture = ask(source("a", "command", argv=["yes"], limit_bytes=1000))["a"]
    assert (capture["status"], len(capture["text"]), capture["truncated"]) == ("ok", 1000, True)


def test_sources_are_read_at_the_same_time() -> None:
    started = time.monotonic()
    run_probe(*(source(f"s{number}", "command", argv=["sleep", "0.7"]) for number in range(20)))
    assert time.monotonic() - started < 7  # one after the other: 14 s


@pytest.mark.slow
def test_the_probe_ends_when_every_source_hangs(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    hanging = [source(f"s{number}", "command", argv=["sleep", "60"], timeout_seconds=99) for number in range(8)]
    reading = source("f", "command", argv=["cat", str(fifo)], timeout_seconds=99)
    started = time.monotonic()
    captures = run_probe(*hanging, reading)["captures"]
    assert time.monotonic() - started < 12
    assert {capture["status"] for capture in captures} == {"timeout"}


@pytest.fixture
def immortal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test cannot put a process into uninterruptible sleep; so the kill is made to do nothing."""
    monkeypatch.setattr("qwenhost.probe.child.Child.kill", lambda self: None)


@pytest.mark.usefixtures("immortal")
def test_a_process_that_ignores_signals_is_abandoned() -> None:
    started = time.monotonic()
    stuck = captured([source("a", "command", argv=["sleep", "3"], timeout_seconds=0.3)], "h1")
    assert time.monotonic() - started < 2
    assert stuck["captures"][0]["status"] == "timeout"
    assert "stuck in the kernel" in stuck["captures"][0]["error"]


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths with "hangs" in them never answer, whatever reads them; those with "dies" end the reader."""

    def content(path: str, limit: int) -> str:
        if "dies" in path:
            os.kill(os.getpid(), signal.SIGKILL)
        if "hangs" in path:
            time.sleep(3)
        return "answered"

    monkeypatch.setattr("qwenhost.probe.files._content", content)


def read(*paths: str) -> dict[str, dict[str, Any]]:
    sources = [source(path, "file", paths=[path], timeout_seconds=1) for path in paths]
    return {answer["source"]: answer for answer in captured(sources, "h1")["captures"]}


@pytest.mark.usefixtures("hanging")
def test_files_that_hang_cost_only_themselves() -> None:
    answers = read("a", "hangs-1", "b", "hangs-2", "c")
    assert {name for name, answer in answers.items() if answer["text"] == "answered"} == {"a", "b", "c"}
    for name in ("hangs-1", "hangs-2"):
        assert (answers[name]["status"], answers[name]["error"]) == ("timeout", "no answer within 1 s")


@pytest.mark.usefixtures("hanging", "immortal")
def test_a_file_that_is_stuck_in_the_kernel_is_told_so_and_no_other() -> None:
    answers = read("a", "hangs", "b")
    assert "stuck in the kernel" in answers["hangs"]["error"]
    assert answers["a"]["status"] == answers["b"]["status"] == "ok"


@pytest.mark.usefixtures("hanging")
def test_a_reader_that_dies_answers_for_what_it_has_read_only() -> None:
    answers = read("a", "dies", "b")
    assert answers["a"]["status"] == "ok"
    for name in ("dies", "b"):
        assert (answers[name]["status"], answers[name]["error"]) == ("failed", "signal 9: no message")


def test_sources_with_different_timeouts_are_all_read(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content")
    short = source("short", "file", paths=[str(tmp_path / "file")], timeout_seconds=0.5)
    answers = ask(short, source("long", "file", paths=[str(tmp_path / "file")], timeout_seconds=5))
    assert answers["short"]["text"] == answers["long"]["text"] == "content"


def test_a_file_answers_with_its_content(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "present").write_bytes(b"caf\xff\n")
    captures = ask(
        source("present", "file", paths=[str(tmp_path / "present")]),
        source("absent", "file", paths=[str(tmp_path / "absent")]),
        source("folder", "file", paths=[str(tmp_path)]),
        source("cut", "file", paths=[str(tmp_path / "present")], limit_bytes=2),
    )
    assert captures["present"]["text"] == "caf\N{REPLACEMENT CHARACTER}\n"
    assert captures["absent"]["status"] == "missing"
    assert captures["folder"]["status"] == "failed"
    assert (captures["cut"]["text"], captures["cut"]["truncated"]) == ("ca", True)


@pytest.mark.parametrize("kind", ["file", "tree"])
def test_settings_of_the_kernel_are_read(ask: Ask, kind: str) -> None:
    """It refuses large reads of them, whatever their size."""
    answer = ask(source("setting", kind, paths=["/proc/sys/kernel/osrelease"]))["setting"]
    assert os.uname().release in answer["text"]


def test_a_tree_tells_contents_links_and_errors(ask: Ask, tmp_path: Path) -> None:
    real = tmp_path / "bus" / "port" / "card"
    real.mkdir(parents=True)
    (real / "vendor").write_text("0x10de\n")
    (tmp_path / "devices").mkdir()
    (tmp_path / "devices" / "card").symlink_to(real)
    (real / "broken").symlink_to(tmp_path / "loop")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    text = ask(source("t", "tree", paths=[f"{tmp_path}/devices/*/vendor", f"{tmp_path}/loop"]))["t"]["text"]
    card = f"{tmp_path}/devices/card"
    assert json.loads(text) == {
        f"{card}@": str(real),
        f"{card}/vendor": "0x10de\n",
        f"{tmp_path}/loop!": "ELOOP",
    }


def test_a_tree_without_files_is_missing(ask: Ask, tmp_path: Path) -> None:
    capture = ask(source("t", "tree", paths=[f"{tmp_path}/no/*"]))["t"]
    assert (capture["status"], capture["text"]) == ("missing", "")


def test_a_large_tree_is_cut_and_stays_json(ask: Ask, tmp_path: Path) -> None:
    for number in range(10):
        (tmp_path / f"f{number}").write_text("x" * 100)
    capture = ask(source("t", "tree", paths=[f"{tmp_path}/*"], limit_bytes=350))["t"]
    assert capture["truncated"]
    assert len(json.loads(capture["text"])) == 4


@pytest.mark.skipif(os.geteuid() != 0, reason="root is needed to become somebody else")
def test_files_of_others_are_denied() -> None:
    code = "import os,sys; os.setgid(65534); os.setuid(65534); from qwenhost.probe.main import main; main()"
    sources = [source("f", "file", paths=["/etc/shadow"]), source("t", "tree", paths=["/etc/shadow"])]
    run = subprocess.run(
        ["/usr/bin/python3", "-c", code],
        input=json.dumps({"schema": 1, "sources": sources}),
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    assert [capture["status"] for capture in json.loads(run.stdout)["captures"]] == ["denied", "denied"]


class _Service(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(503 if self.path == "/down" else 200)
        self.end_headers()
        self.wfile.write(b'{"seen": "' + self.path.encode() + b'"}')

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def service() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Service)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_http_tells_status_and_body(ask: Ask, service: str) -> None:
    captures = ask(source("a", "http", url=f"{service}/x?y=1"), source("b", "http", url=f"{service}/down"))
    assert json.loads(captures["a"]["text"]) == {"status": 200, "body": '{"seen": "/x?y=1"}'}
    assert json.loads(captures["b"]["text"])["status"] == 503


def test_http_refused_is_a_failure(ask: Ask) -> None:
    capture = ask(source("a", "http", url="http://127.0.0.1:9/"))["a"]
    assert (capture["status"], capture["error"]) == ("failed", "connection refused")


@pytest.mark.parametrize("url", ["http://192.0.2.1/", "http://example.net/", "file:///etc/passwd"])
def test_http_to_other_hosts_is_refused(ask: Ask, url: str) -> None:
    capture = ask(source("a", "http", url=url))["a"]
    assert capture["status"] == "failed"
    assert capture["error"].startswith("refused")


def test_an_unknown_kind_fails_alone(ask: Ask) -> None:
    captures = ask(source("a", "magic"), source("b", "command", argv=["true"]))
    assert (captures["a"]["status"], captures["b"]["status"]) == ("failed", "ok")


@pytest.mark.parametrize("request_text", ["", "{}", "[]", '{"schema": 2, "sources": []}', '{"schema":1}'])
def test_what_is_no_request_is_refused(request_text: str) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "qwenhost.probe"], input=request_text, capture_output=True, text=True, cwd=ROOT
    )
    assert run.returncode == 2
    assert run.stdout == ""
    assert run.stderr.startswith("probe: not a request:")


def test_the_bundle_is_one_that_the_records_read() -> None:
    asked = command("kernel", "uname", "-r").request()
    bundle = from_json(json.dumps(run_probe(asked)), "probe")
    assert bundle.host == "h1"
    assert bundle.of("kernel")[0].text.strip() == bundle.notes["kernel"]


def _old_python() -> str | None:
    homes = (Path.home() / ".pyenv/versions", Path("/opt/pyenv/versions"))
    found = [str(path) for home in homes for path in home.glob("3.8*/bin/python3.8")]
    return found[0] if found else shutil.which("python3.8")


@pytest.mark.skipif(_old_python() is None, reason="no Python 3.8 here")
def test_the_oldest_python_runs_it() -> None:
    sources = (source("a", "command", argv=["echo", "old"]), source("n", "nvml"))
    captures = run_probe(*sources, python=str(_old_python()))["captures"]
    assert [capture["source"] for capture in captures] == ["a", "n"]
    assert captures[0]["text"] == "old\n"

"""The parts of the lab that need no root: addresses, sources, allow-lists, requests, overlaps, stand-ins."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from qwenhost.cli import lab as cli
from qwenhost.lab import cgroups, commands, lifecycle
from qwenhost.lab.aptsources import AptSource, from_deb822, from_list, of_release
from qwenhost.lab.image import image_key
from qwenhost.lab.keys import known_line
from qwenhost.lab.layout import Lab
from qwenhost.lab.lifecycle import HostStatus, refuse_crowd
from qwenhost.lab.network import overlapping
from qwenhost.lab.proxy import parse_request
from qwenhost.lab.registries import origins, pip_indexes
from qwenhost.lab.standins import shared_keys, write_standins
from qwenhost.records.errors import QwenhostError


def test_a_host_derives_all_from_its_number() -> None:
    host = Lab("trial").named("lab12")
    assert (host.number, host.address, host.mac) == (12, "10.213.63.12", "52:54:00:d5:04:0c")
    assert host.machine == "trial-lab12"
    assert host.root == Path("/var/lib/qwenhost-lab/trial/hosts/lab12/root")


@pytest.mark.parametrize("name", ["", "Lab", "a-b", "abcdefghijk", "../x"])
def test_a_lab_name_that_cannot_prefix_an_interface_is_refused(name: str) -> None:
    with pytest.raises(QwenhostError, match="not usable"):
        Lab(name)


def test_tests_that_run_at_the_same_time_share_no_lab() -> None:
    texts = [path.read_text() for path in Path(__file__).parents[1].rglob("*.py")]
    names = re.findall(r'^LAB = Lab\("(\w+)"\)', "\n".join(texts), re.MULTILINE)
    assert len(names) > 8 and sorted(names) == sorted(set(names))
    assert len({Lab(name).network for name in names}) == len(names)


@pytest.mark.parametrize("name", ["lab0", "lab", "lab255", "lab1/..", "gpu1"])
def test_an_unknown_host_is_refused(name: str) -> None:
    with pytest.raises(QwenhostError, match="no lab host"):
        Lab().named(name)


def test_one_line_sources() -> None:
    text = """
    # deb http://old.example/debian bookworm main
    deb [arch=amd64 signed-by=/usr/share/keyrings/a.gpg] http://one.example/debian bookworm main contrib # x
    deb-src http://one.example/debian bookworm main
    deb http://two.example/debian bookworm-updates main
    """
    first, second = from_list(text)
    keyring = "/usr/share/keyrings/a.gpg"
    assert first == AptSource("http://one.example/debian", "bookworm", ("main", "contrib"), keyring)
    assert second.line() == "deb http://two.example/debian bookworm-updates main"


def test_deb822_sources_are_spread_over_uris_and_suites() -> None:
    text = (
        "Types: deb deb-src\n# a comment\nURIs: http://one.example/d http://two.example/d\n"
        "Suites: bookworm\n bookworm-updates\nComponents: main\nSigned-By: /k.gpg\n"
        "\nTypes: deb\nEnabled: no\nURIs: http://off.example\nSuites: bookworm\n"
        "\nTypes: deb-src\nURIs: http://source.example\nSuites: bookworm\n"
    )
    found = list(from_deb822(text))
    assert [(source.uri, source.suite) for source in found] == [
        ("http://one.example/d", "bookworm"),
        ("http://one.example/d", "bookworm-updates"),
        ("http://two.example/d", "bookworm"),
        ("http://two.example/d", "bookworm-updates"),
    ]
    assert {source.signed_by for source in found} == {"/k.gpg"}


def test_only_the_release_itself_makes_the_image() -> None:
    suites = ["bookworm", "bookworm-security", "cloud-sdk-bookworm", "trixie", "nodistro"]
    sources = [AptSource("http://one.example", suite, ("main",)) for suite in suites]
    assert [source.suite for source in of_release(sources, "bookworm")] == ["bookworm", "bookworm-security"]


def test_the_image_key_follows_sources_and_certificates(tmp_path: Path) -> None:
    source = AptSource("http://one.example", "bookworm", ("main",))
    certificate = tmp_path / "a.crt"
    certificate.write_text("A")
    keys = [image_key([source], []), image_key([source], [certificate])]
    certificate.write_text("B")
    keys += [image_key([source], [certificate]), image_key([source, source], [certificate])]
    assert len(set(keys)) == 4
    assert image_key([source], []) == keys[0]


def test_origins_leave_out_what_is_not_http() -> None:
    urls = [
        "https://a.example/simple",
        "http://b.example:8080/d",
        "file:///w",
        "/opt",
        "http://c.example",
    ]
    assert origins(urls) == {("a.example", 443), ("b.example", 8080), ("c.example", 80)}


def test_pip_indexes_are_those_of_its_configuration() -> None:
    usage = "  -i, --index-url <url>  Base URL (default https://main.example/simple). x"
    own = "global.index-url='https://own.example/simple'\n:env:.extra-index-url='file:///a https://b.example/s'\n"
    assert pip_indexes("", usage) == ["https://main.example/simple"]
    assert pip_indexes(own, usage) == ["https://own.example/simple", "https://b.example/s"]


def test_a_tunnel_request() -> None:
    request = parse_request(b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n")
    assert (request.origin, request.opening, request.tunnel) == (("a.example", 443), b"", True)


def test_a_plain_request_is_made_the_origins() -> None:
    head = b"GET http://b.example:81/d?q=1 HTTP/1.1\r\nHost: b.example:81\r\n"
    request = parse_request(head + b"Proxy-Connection: x\r\nConnection: keep-alive\r\n\r\n")
    assert request.origin == ("b.example", 81)
    assert request.opening == b"GET /d?q=1 HTTP/1.1\r\nHost: b.example:81\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET\r\n\r\n",
        b"CONNECT a.example HTTP/1.1\r\n\r\n",
        b"GET ftp://a/ HTTP/1.1\r\n\r\n",
    ],
)
def test_what_is_not_a_proxy_request_is_refused(head: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_request(head)


def test_overlaps_of_the_labs_range() -> None:
    taken = [
        ("10.0.0.0/8", "vpn0"),
        ("10.213.230.7/32", "docker0"),
        ("10.213.229.0/24", "eth1"),
        ("0.0.0.0/0", "eth0"),
    ]
    assert list(overlapping(Lab().network, taken)) == taken[:2]


def test_a_crowd_beyond_the_inotify_limit_is_refused() -> None:
    refuse_crowd(16, 128)
    with pytest.raises(QwenhostError, match="room for 16") as refused:
        refuse_crowd(17, 128)
    assert "136" in refused.value.hint


def test_cgroup_hierarchies_of_hybrid_and_unified_machines(tmp_path: Path) -> None:
    with pytest.raises(QwenhostError, match="no cgroup hierarchy"):
        cgroups.hierarchies(tmp_path)
    for name in ("systemd", "unified", "memory"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cgroup.procs").touch()
    assert cgroups.hierarchies(tmp_path) == [tmp_path / "systemd", tmp_path / "unified"]
    (tmp_path / "cgroup.controllers").touch()
    assert cgroups.hierarchies(tmp_path) == [tmp_path]


def test_known_hosts_line() -> None:
    assert known_line(Lab().host(2), "ssh-ed25519 AAAA lab2\n") == "10.213.230.2 ssh-ed25519 AAAA\n"


def test_standins_hold_what_the_machines_kernel_has(tmp_path: Path) -> None:
    machine, root = tmp_path / "sys", tmp_path / "root"
    for key, value in {"net/core/rmem_max": "4194304\n", "fs/file-max": "100\n", "fs/other": "1\n"}.items():
        (machine / key).parent.mkdir(parents=True, exist_ok=True)
        (machine / key).write_text(value)
    (root / "etc/systemd/system").mkdir(parents=True)
    assert shared_keys(machine) == ["net/core/rmem_max", "fs/file-max"]
    write_standins(root, machine)
    seeds = root / "usr/local/lib/qwenhost-lab/sysctl"
    assert {str(path.relative_to(seeds)) for path in seeds.rglob("*") if path.is_file()} == set(
        shared_keys(machine)
    )
    assert (seeds / "net/core/rmem_max").read_text() == "4194304\n"


def test_without_root_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(QwenhostError, match="needs root"):
        lifecycle.status(Lab())


def test_missing_tools_are_named_with_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda tool: None if tool in ("ssh", "ssh-keygen", "mmdebstrap") else tool)
    with pytest.raises(QwenhostError, match="mmdebstrap, ssh, ssh-keygen") as missing:
        commands.require_tools()
    assert missing.value.hint == "apt install mmdebstrap openssh-client"


def test_a_failed_tool_says_what_it_said() -> None:
    with pytest.raises(QwenhostError, match=r"failed \(3\): second"):
        commands.run("sh", "-c", "echo first >&2; echo second >&2; exit 3")


def test_status_of_a_lab_that_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "status", lambda lab: [])
    done = CliRunner().invoke(cli.group, ["status", "--name", "none"])
    assert (done.exit_code, done.output) == (0, "lab none is down\n")


def test_status_fails_while_a_host_is_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    dead = HostStatus("lab1", "10.213.230.1", False, None, None, False, "")
    monkeypatch.setattr(lifecycle, "status", lambda lab: [dead])
    monkeypatch.setattr(cli, "active_faults", lambda host: ["gpu-lost"])
    done = CliRunner().invoke(cli.group, ["status"])
    assert done.exit_code == 1
    assert done.output == "lab1  10.213.230.1  dead  pid -  init -  ssh silent  -  faults: gpu-lost\n"


@pytest.mark.parametrize("arguments", [[], ["lab1"], ["lab1", "kind", "--clear"], ["lab1", "no-such-kind"]])
def test_fault_needs_one_deed(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "_module", lambda name: SimpleNamespace(KINDS={"kind": "what it does"}))
    assert CliRunner().invoke(cli.group, ["fault", *arguments]).exit_code == 2

"""A bundle to send away: no identities, and the same findings."""

from __future__ import annotations

import json

import pytest

from qwenhost.records.bundle import Bundle, Capture, from_json
from qwenhost.workflows.capture import capture, scrubbed
from qwenhost.workflows.scrub import Scrubber

UUID = "GPU-5fcd4d2e-1d4a-4f33-8a7e-9b1d2c3e4f50"


def cleaned(text: str, host: str = "gpu-a1.example.net") -> str:
    """Return one text of a bundle after scrubbing."""
    return scrubbed(Bundle(host, (Capture("s", "ok", text),))).captures[0].text


@pytest.mark.parametrize(
    ("secret", "text"),
    [
        ("5fcd4d2e", f"GPU 0: NVIDIA A100-SXM4-80GB (UUID: {UUID})"),
        ("1564720004631", '{"serial": "1564720004631"}'),
        ("1564720004631", "    Serial Number                         : 1564720004631"),
        ("1564720004631", "<serial>1564720004631</serial>"),
        ("48-b0-2d-ff", "Capabilities: [148 v1] Device Serial Number 48-b0-2d-ff-fe-01-02-03"),
        ("10.1.2.3", "NVRM: peer 10.1.2.3 is down"),
        ("fd12:3456::7", "inet6 fd12:3456::7/64"),
        ("a0:36:9f:12:34:56", "link/ether a0:36:9f:12:34:56 brd"),
        ("gpu-a1", "Nov 12 10:00:00 gpu-a1 kernel: NVRM: loading"),
        ("example.net", "Nov 12 10:00:00 gpu-a1.example.net kernel: NVRM: loading"),
    ],
)
def test_identities_are_replaced(secret: str, text: str) -> None:
    assert secret in text
    assert secret not in cleaned(text)


@pytest.mark.parametrize(
    "text",
    [
        "Driver Version: 580.95.05",
        "VBIOS Version : 92.00.45.00.03",
        "Image Version : G500.0200.00.05",
        "NVRM: GPU at PCI:0000:4e:00: no",
        "00000000:07:00.0",
        "listening on 127.0.0.1:8000 and 0.0.0.0 and [::1]:9",
        "10:11:12 up 3 days",
        "OFED 5.8-1.1.2.1",
        "serial 8250 driver, 4 ports",
        "net.core.rmem_max = 134217728",
    ],
)
def test_what_findings_need_is_kept(text: str) -> None:
    assert cleaned(text) == text


def test_equal_values_stay_equal_and_different_ones_different() -> None:
    other = UUID.replace("5f", "6f")
    words = cleaned(f"{UUID} {other} {UUID} 10.1.2.3 10.1.2.4 10.1.2.3").split()
    assert words[0] == words[2] != words[1]
    assert words[3] == words[5] != words[4]
    assert words[0].startswith("GPU-")


def test_a_serial_is_replaced_wherever_it_stands() -> None:
    captures = (
        Capture("q", "ok", "Serial Number : 1564720004631"),
        Capture("d", "ok", "card 1564720004631 fell"),
    )
    bundle = scrubbed(Bundle("h", captures))
    assert bundle.captures[1].text == "card 0000000000001 fell"


def test_json_stays_json() -> None:
    text = json.dumps({"devices": [{"serial": "1564720004631", "uuid": UUID}]})
    assert json.loads(cleaned(text))["devices"][0]["serial"] == "0000000000001"


def test_the_host_is_not_named() -> None:
    assert scrubbed(Bundle("vm", ())).host == "host1"


def test_short_names_do_not_spoil_words() -> None:
    assert Scrubber.over("vm", ["vm.swappiness"]).clean("vm.swappiness = 1") == "vm.swappiness = 1"


def test_this_host_is_captured() -> None:
    bundle = capture(None)
    assert bundle.host == "host1"
    assert from_json(bundle.to_json(), "here") == bundle
    assert any(capture.status == "ok" for capture in bundle.captures)

"""A declared driver: refused where it contradicts itself, else version, packages and source."""

from __future__ import annotations

import re
from typing import Any

import pytest

from qwenhost.expectations.declared import read_declared
from qwenhost.expectations.driver_packages import distributions, package_names, package_source, pinned_versions
from qwenhost.expectations.driver_settings import BuildKernel, DriverPlace, driver_settings
from qwenhost.expectations.software import driver_branch, kept_up
from qwenhost.records.desired import Driver
from qwenhost.records.errors import QwenhostError

V = "580.95.05"


def declared(**driver: Any) -> Driver:
    found = read_declared({"qwenhost_driver": driver}, "gpu1").driver
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("driver", "told"),
    [
        ({}, "either version or branch"),
        ({"version": V, "branch": 580}, "either version or branch"),
        ({"version": "latest"}, "no driver version"),
        ({"version": "580"}, "no driver version"),
        ({"version": "535.161.08"}, "no packages of branch '535' are known"),
        ({"branch": 581}, "no packages of branch '581' are known"),
        ({"verion": V}, "qwenhost_driver.verion: unknown"),
        ({"version": V, "source": {"miror": "x"}}, "qwenhost_driver.source.miror: unknown"),
        ({"version": V, "source": {"mirror": "http://m/d"}}, "source.key: missing"),
        ({"version": V, "source": {"mirror": "ftp://m", "key": "m.asc"}}, "no http or https URL"),
        ({"version": V, "source": {"mirror": "http://m", "folder": "/d", "key": "m.asc"}}, "mirror or folder"),
        ({"version": V, "source": {"folder": "debs"}}, "no absolute path"),
    ],
)
def test_refused(driver: dict[str, Any], told: str) -> None:
    with pytest.raises(QwenhostError) as caught:
        declared(**driver)
    assert told in str(caught.value)
    assert caught.value.exit_code == 2


def test_two_versions_are_refused() -> None:
    raw = {"qwenhost_driver": {"version": V}, "qwenhost_driver_version": "580.82.07"}
    with pytest.raises(QwenhostError, match=re.escape(f"where qwenhost_driver installs {V}")):
        read_declared(raw, "gpu1")
    assert read_declared(raw | {"qwenhost_driver_version": V}, "gpu1").driver_version == V


def test_a_branch_is_the_version_that_the_data_pins() -> None:
    assert declared(branch=580).version == pinned_versions()["580"]


def test_pinned_branches_get_fixes_and_have_packages_everywhere() -> None:
    assert set(pinned_versions()) == set(kept_up("2026-12"))
    for name, version in pinned_versions().items():
        assert getattr(driver_branch(version), "name", "") == name
        assert all(package_names(version, distribution, fabric=False) for distribution in distributions())


@pytest.mark.parametrize(
    ("version", "distribution", "some"),
    [
        (V, "ubuntu-22.04", {"nvidia-dkms-580-open", "libnvidia-compute-580", "nvidia-utils-580"}),
        ("595.71.05", "ubuntu-24.04", {"nvidia-dkms-open", "libnvidia-compute"}),
        (V, "debian-12", {"nvidia-kernel-open-dkms", "nvidia-driver-cuda"}),
    ],
)
def test_names_by_distribution_and_branch(version: str, distribution: str, some: set[str]) -> None:
    names = package_names(version, distribution, fabric=False)
    assert some | {"nvidia-persistenced", "nvidia-modprobe"} <= set(names)
    assert package_names(version, distribution, fabric=True) == (*names, "nvidia-fabricmanager")


def test_nothing_is_known_of_other_distributions_and_old_branches() -> None:
    assert package_names(V, "rhel-9.6", fabric=False) == ()
    assert package_names("535.161.08", "debian-12", fabric=False) == ()


def test_sources() -> None:
    own = package_source(declared(version=V), "debian-12")
    assert (own.uri.rsplit("/", 2)[-2:], own.key_url) == (["debian12", "x86_64"], f"{own.uri}/3bf863cc.pub")
    mirror = package_source(declared(version=V, source={"mirror": "https://m/d/", "key": "m.asc"}), "debian-12")
    assert (mirror.uri, mirror.key_url, mirror.trusted) == ("https://m/d", "", False)
    folder = package_source(declared(version=V, source={"folder": "/srv/debs"}), "debian-12")
    assert (folder.uri, folder.trusted) == ("file:/srv/debs", True)
    signed = package_source(declared(version=V, source={"folder": "/srv/debs", "key": "m.asc"}), "debian-12")
    assert not signed.trusted


def test_role_arguments() -> None:
    place = DriverPlace("ubuntu-24.04", switches=True, kernels=(BuildKernel("6.8.0-60-generic", headers=False),))
    settings = driver_settings(declared(version=V), place)
    assert settings["gpu_driver_kernels"] == [{"release": "6.8.0-60-generic", "headers": False}]
    assert "nvidia-fabricmanager" in settings["gpu_driver_packages"]
    assert driver_settings(None, place) == {}

"""The variable qwenhost_driver: which driver a host should have, and where its packages come from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from qwenhost.expectations.driver_packages import pinned_versions
from qwenhost.expectations.reader import Reader, did_you_mean
from qwenhost.records.desired import Driver
from qwenhost.records.versions import PATTERN, branch

KEY = "qwenhost_driver"


def read_driver(reader: Reader, value: Any) -> Driver:
    """Return the typed variable; refuses what is wrong in itself."""
    given = reader.mapping(KEY, value)
    reader.only(KEY, given, {"version", "branch", "source"})
    source = reader.mapping(f"{KEY}.source", given.get("source") or {})
    reader.only(f"{KEY}.source", source, {"mirror", "folder", "key"})
    driver = Driver(
        version=_version(reader, given),
        mirror=_text(reader, source, "mirror").rstrip("/"),
        folder=_text(reader, source, "folder").rstrip("/"),
        key_file=_text(reader, source, "key"),
        origin=f"inventory: {KEY}",
    )
    _check_source(reader, driver)
    return driver


def _version(reader: Reader, given: Mapping[Any, Any]) -> str:
    if ("version" in given) == ("branch" in given):
        reader.refuse(KEY, "takes either version or branch", 'such as {branch: "580"}')
    pinned = pinned_versions()
    name = "version" if "version" in given else "branch"
    text = reader.text(f"{KEY}.{name}", given[name])
    if name == "version" and not re.fullmatch(PATTERN, text):
        reader.refuse(f"{KEY}.version", f"{text!r} is no driver version", "such as 580.173.02, in quotes")
    number = branch(text)
    if number not in pinned:
        reader.refuse(f"{KEY}.{name}", f"no packages of branch {number!r} are known", did_you_mean(number, pinned))
    return text if name == "version" else pinned[number]


def _text(reader: Reader, source: Mapping[Any, Any], name: str) -> str:
    return reader.text(f"{KEY}.source.{name}", source[name]) if name in source else ""


def _check_source(reader: Reader, driver: Driver) -> None:
    key = f"{KEY}.source"
    if driver.mirror and driver.folder:
        reader.refuse(key, "takes either mirror or folder")
    if driver.mirror and not re.fullmatch(r"https?://[\w.:/~%@+-]+", driver.mirror):
        reader.refuse(f"{key}.mirror", f"{driver.mirror!r} is no http or https URL")
    if driver.mirror and not driver.key_file:
        reader.refuse(f"{key}.key", "missing", "the file, beside the inventory, of the key that signs the mirror")
    if driver.folder and not re.fullmatch(r"/[\w./+-]+", driver.folder):
        reader.refuse(f"{key}.folder", f"{driver.folder!r} is no absolute path on the host")

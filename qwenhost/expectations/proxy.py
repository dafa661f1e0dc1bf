"""The variable qwenhost_vllm.proxy: one address before all instances of a host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from qwenhost.expectations.reader import Reader

ANYWHERE = "0.0.0.0"


def read_proxy(reader: Reader, key: str, value: Any, ports: Iterable[int]) -> Mapping[str, str | int]:
    """Return address, port, certificate and key (files on the host, both or none); empty for no proxy."""
    if value is None:
        return {}
    given = reader.mapping(key, value)
    reader.only(key, given, {"port", "address", "certificate", "key"})
    port = reader.integer(f"{key}.port", given.get("port", ""), 1, 65535)
    if port in set(ports):
        reader.refuse(f"{key}.port", f"{port} is an instance's own")
    files = {name: str(given.get(name) or "") for name in ("certificate", "key")}
    if any(files.values()):
        for name, path in files.items():
            if not path.startswith("/"):
                reader.refuse(f"{key}.{name}", f"{path!r} is no absolute path on the host", "certificate and key")
    return {"address": reader.text(f"{key}.address", given.get("address", ANYWHERE)), "port": port, **files}

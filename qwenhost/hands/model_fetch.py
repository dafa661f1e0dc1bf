"""Bring a model to this host: from a mirror's folder, from the hub, or out of a folder that was pushed here.

Files gather in PATH.part, where an interrupted run is taken up; the folder gets its name when every file is
whole and has the promised sum. A model that is there already is left alone.
"""

from __future__ import annotations

import os
import subprocess
from typing import Any

from qwenhost.hands import disk, kernel, mirror, model_files, model_sums
from qwenhost.hands.answer import BadRequest, Refused, outcome, why

PART = ".part"
HUB_NOTES = ".cache/huggingface/download"
"""Where `hf download` notes of each file its commit and its ETag, which is the SHA256 of a large file."""

LARGE_FILE_SUM = 64
"""Characters of a SHA256; small files have the 40 of a git blob."""


def fetch(request: dict[str, Any], check: bool = False) -> dict[str, Any]:
    """Bring {"path"} from {"url"}, or from {"hub", "revision"} by {"program": [words]}. Raises Refused."""
    path = place_of(request)
    if os.path.isdir(path) or check:
        return _told(path, check)
    part = path + PART
    os.makedirs(part, exist_ok=True)
    if "url" in request:
        mirror.fetch_folder(str(request["url"]), part)
    else:
        _from_hub(request, part)
    return _placed(path)


def room(request: dict[str, Any], check: bool = False) -> dict[str, Any]:
    """Raise Refused unless {"bytes"} have room beside {"path"}; what PATH.part holds already counts."""
    path = place_of(request)
    disk.need_room(path + PART, int(request["bytes"]))
    return outcome([], [])


def place(request: dict[str, Any], check: bool = False) -> dict[str, Any]:
    """Verify what was pushed into PATH.part, and give it its name {"path"}. Raises Refused."""
    path = place_of(request)
    return _told(path, check) if os.path.isdir(path) or check else _placed(path)


def place_of(request: dict[str, Any]) -> str:
    """Return the folder of the model. Raises BadRequest."""
    path = str(request["path"])
    if not path.startswith("/") or path.rstrip("/").count("/") < 2:
        raise BadRequest("path is an absolute path of a folder below a folder")
    return kernel.path_of(path.strip("/"))


def _told(path: str, check: bool) -> dict[str, Any]:
    there = ["{} is there".format(path)]
    return outcome(there if os.path.isdir(path) else [], there if check or os.path.isdir(path) else [])


def _placed(path: str) -> dict[str, Any]:
    """Verify the gathered files, open them for reading and rename their folder."""
    part = path + PART
    found = model_files.verified(part, {})
    for name in (model_sums.SUMS, *found):
        if os.path.exists(os.path.join(part, name)):
            os.chmod(os.path.join(part, name), 0o644)
    os.chmod(part, 0o755)
    os.rename(part, path)
    return outcome([], ["{}: {} files".format(path, len(found))])


def _from_hub(request: dict[str, Any], part: str) -> None:
    """Have `hf download` fetch one commit; it goes on where an earlier run ended. Raises Refused."""
    words = [*request["program"], "download", str(request["hub"])]
    words += ["--revision", str(request["revision"]), "--local-dir", part]
    try:
        ran = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            universal_newlines=True,
            errors="replace",
        )
    except OSError as error:
        raise Refused("{}: {}".format(words[0], why(error))) from error
    if ran.returncode != 0:
        lines = [line.strip() for line in ran.stdout.splitlines() if line.strip()]
        raise Refused("hf download: {}".format(lines[-1][:300] if lines else ran.returncode))
    _compare_with_notes(part, str(request["revision"]))


def _compare_with_notes(part: str, revision: str) -> None:
    """Hold each large file against the sum that the hub told, then write the sums of all files beside them."""
    sums = {
        name: model_sums.sha256(os.path.join(part, name)) for name in sorted(os.listdir(part)) if _kept(part, name)
    }
    for name, digest in sums.items():
        commit, etag = _note(part, name)
        if commit != revision:
            raise Refused("{}: of commit {}, not {}".format(name, commit or "unknown", revision))
        if len(etag) == LARGE_FILE_SUM and etag != digest:
            os.unlink(os.path.join(part, name))
            raise Refused("{}: sha256 {:.12}..., the hub told {:.12}...; run again".format(name, digest, etag))
    with open(os.path.join(part, model_sums.SUMS), "w", encoding="utf-8") as file:
        file.writelines("{}  {}\n".format(digest, name) for name, digest in sums.items())


def _kept(part: str, name: str) -> bool:
    return model_sums.belongs(name) and os.path.isfile(os.path.join(part, name))


def _note(part: str, name: str) -> tuple[str, str]:
    try:
        with open(os.path.join(part, HUB_NOTES, name + ".metadata"), encoding="utf-8") as file:
            commit, etag = file.read().split()[:2]
    except (OSError, ValueError):
        return "", ""
    return commit, etag

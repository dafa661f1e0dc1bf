"""A model is brought whole or not at all, and from where the last try ended."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hands.conftest import Hands, Ran
from tests.hands.mirror import Mirror
from tests.hands.test_model_files import weights

PATH = "/srv/models/tiny"
REVISION = "0123456789abcdef0123456789abcdef01234567"
FILES = {"config.json": b'{"model_type": "qwen3_5"}', "model.safetensors": weights(bytes(300_000))}


@pytest.fixture
def mirror() -> Iterator[Mirror]:
    with Mirror(FILES).serving() as served:
        yield served


def bring(hands: Hands, mirror: Mirror, **request: Any) -> Ran:
    return hands("model-fetch", {"path": PATH, "url": mirror.url, **request})


def there(root: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (root / PATH[1:]).iterdir()}


def test_a_model_comes_whole_and_once(hands: Hands, mirror: Mirror, root: Path) -> None:
    first = bring(hands, mirror)
    assert (first.status, first.answer["changed"]) == (0, True), first.answer
    assert there(root) == mirror.files
    assert not Path(f"{root}{PATH}.part").exists()
    mirror.files = {}
    assert bring(hands, mirror).answer["changed"] is False
    assert hands("model", {"path": PATH}).status == 0


@pytest.mark.parametrize(("resumes", "already"), [(True, 1000), (True, 0), (False, 1000)])
def test_an_interrupted_run_goes_on(hands: Hands, mirror: Mirror, root: Path, resumes: bool, already: int) -> None:
    part = Path(f"{root}{PATH}.part")
    part.mkdir(parents=True)
    (part / "model.safetensors").write_bytes(FILES["model.safetensors"][:already])
    mirror.resumes = resumes
    assert bring(hands, mirror).status == 0
    assert mirror.ranges == ([already] if already else [])
    assert there(root) == mirror.files


def test_a_connection_that_breaks_is_made_again(hands: Hands, mirror: Mirror, root: Path) -> None:
    mirror.cuts = 1
    assert bring(hands, mirror).status == 0
    assert len(mirror.ranges) == 1 and mirror.ranges[0] > 100_000
    assert there(root) == mirror.files


def test_other_bytes_than_promised_are_refused(hands: Hands, mirror: Mirror, root: Path) -> None:
    mirror.files["model.safetensors"] = weights(b"\1" * 300_000)
    ran = bring(hands, mirror)
    assert ran.status == 1
    assert re.search(
        r"/models/model.safetensors: sha256 \w+\.\.\., not the \w+\.\.\. of SHA256SUMS", str(ran.answer)
    )
    assert not (root / PATH[1:]).exists()
    mirror.files["model.safetensors"] = FILES["model.safetensors"]
    assert bring(hands, mirror).status == 0


@pytest.mark.parametrize("missing", ["SHA256SUMS", "model.safetensors"])
def test_what_the_mirror_lacks_is_named(hands: Hands, mirror: Mirror, missing: str) -> None:
    del mirror.files[missing]
    assert bring(hands, mirror).answer["error"].endswith(f"/models/{missing}: HTTP 404")


def test_a_mirror_that_is_down_is_named(hands: Hands, mirror: Mirror) -> None:
    ran = bring(hands, mirror, url="http://127.0.0.1:9/x")
    assert ran.answer["error"] == "model-fetch: http://127.0.0.1:9/x/SHA256SUMS: Connection refused"


def test_room_is_looked_for_first(hands: Hands, root: Path) -> None:
    assert hands("model-room", {"path": PATH, "bytes": 1000}).status == 0
    ran = hands("model-room", {"path": PATH, "bytes": 10**18})
    assert re.search(r"srv/models: \d+ MiB are missing, \d+ MiB are free there", ran.answer["error"])


def test_what_was_pushed_gets_its_name_when_it_is_whole(hands: Hands, root: Path) -> None:
    part = Path(f"{root}{PATH}.part")
    part.mkdir(parents=True)
    (part / "config.json").write_bytes(FILES["config.json"])
    assert "no .safetensors file is there" in hands("model-place", {"path": PATH}).answer["error"]
    (part / "model.safetensors").write_bytes(FILES["model.safetensors"])
    assert hands("model-place", {"path": PATH}, "--check").answer["changed"]
    assert hands("model-place", {"path": PATH}).answer["changed"]
    assert there(root) == FILES


HUB = """
import hashlib, pathlib, sys
word, repository, _, revision, _, folder = sys.argv[1:]
assert (word, repository) == ("download", "Qwen/Qwen3.5-9B"), sys.argv
data = pathlib.Path({source!r}).read_bytes()
notes = pathlib.Path(folder, ".cache/huggingface/download")
notes.mkdir(parents=True, exist_ok=True)
for name, content, etag in (
    ("config.json", b"{{}}", "0" * 40),
    ("model.safetensors", data, {etag!r} or hashlib.sha256(data).hexdigest()),
):
    pathlib.Path(folder, name).write_bytes(content)
    (notes / (name + ".metadata")).write_text(f"{{revision}}\\n{{etag}}\\n1764720000.0\\n")
"""
"""In the place of `hf`: what it leaves in a folder."""


@pytest.mark.parametrize(("etag", "told"), [("", ""), ("f" * 64, "the hub told ffffffffffff")])
def test_the_hub_is_asked_for_one_commit(hands: Hands, root: Path, etag: str, told: str) -> None:
    (root / "weights").write_bytes(FILES["model.safetensors"])
    (root / "hf.py").write_text(HUB.format(source=str(root / "weights"), etag=etag))
    program = [sys.executable, str(root / "hf.py")]
    asked = {"path": PATH, "hub": "Qwen/Qwen3.5-9B", "revision": REVISION, "program": program}
    ran = hands("model-fetch", asked)
    assert (ran.status, told in str(ran.answer)) == (1 if told else 0, True), ran.answer
    assert (root / PATH[1:]).is_dir() is not bool(told)


def test_the_hubs_program_says_why_it_failed(hands: Hands, root: Path) -> None:
    program = [sys.executable, "-c", "import sys; sys.exit('offline')"]
    asked = {"path": PATH, "hub": "Qwen/Qwen3.5-9B", "revision": REVISION, "program": program}
    assert hands("model-fetch", asked).answer["error"] == "model-fetch: hf download: offline"

"""The private files of the service."""

from __future__ import annotations

from collections.abc import Iterator

from qwenhost.checks.declare import Judgement, check, equal
from qwenhost.checks.vllm import NOT_SERVED, SERVED, serves
from qwenhost.facts.vllm_files import ConfigFile, VllmFiles
from qwenhost.records.desired import Expectations

KEY = "api_key"
PRIVATE = "600 root"


@check("vllm.private-files", remedy=SERVED, applies=serves, skipped=NOT_SERVED, consequence_of=("vllm.installed",))
def private_files(found: VllmFiles, want: Expectations) -> Iterator[Judgement]:
    """The API key and each instance's environment are there, and root alone may read them.

    A service keeps what it was started with: a file that is gone is missed at the next start, which fails. A key
    that others may read is everybody's.
    """
    instances = want.serving.instances if want.serving else ()
    for name in (KEY, *(f"{instance.name}.env" for instance in instances)):
        yield equal(name, _told(found.files.get(name)), PRIVATE)


def _told(file: ConfigFile | None) -> str:
    return f"{file.mode} {file.owner}" if file else "not there"

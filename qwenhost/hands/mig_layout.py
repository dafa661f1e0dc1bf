"""A wanted MIG layout, and where its instances fit on a board."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from qwenhost.hands.answer import BadRequest, Refused

NAME = re.compile(r"(?P<slices>\d+)g\.(?P<gib>\d+)gb(?P<attributes>[+-][a-z.]+)?")


class Wanted(NamedTuple):
    """The layout wanted on one GPU; instance names are sorted, largest memory first."""

    gpu: int
    mig: bool
    instances: tuple[str, ...]


class Profile(NamedTuple):
    """A GPU instance profile of a board; `starts` are the memory slices where it may begin, of `size` each."""

    id: int
    name: str
    slices: int
    memory_mib: int
    limit: int
    starts: tuple[int, ...]
    size: int


class Placed(NamedTuple):
    """An instance wanted at a place, counted in memory slices."""

    profile: Profile
    start: int


def read_layout(request: dict[str, Any]) -> list[Wanted]:
    """Return the layout of {"layout": [{"gpu", "mig", "instances"}]}, by GPU. Raises BadRequest."""
    layout = sorted(_wanted(entry) for entry in request["layout"])
    gpus = [wanted.gpu for wanted in layout]
    if len(set(gpus)) != len(gpus):
        raise BadRequest("a GPU is named twice in the layout")
    return layout


def _wanted(entry: dict[str, Any]) -> Wanted:
    gpu, mig = entry["gpu"], entry["mig"]
    if type(gpu) is not int or gpu < 0 or type(mig) is not bool:
        raise BadRequest("gpu is an index and mig is true or false, not {!r} and {!r}".format(gpu, mig))
    instances = in_order([str(name).replace(".me", "+me") for name in entry.get("instances") or ()])
    if instances and not mig:
        raise BadRequest("gpu {}: instances need MIG mode".format(gpu))
    return Wanted(gpu, mig, instances)


def in_order(names: list[str]) -> tuple[str, ...]:
    """Return profile names largest memory first, then most compute first. Raises BadRequest for another form."""
    return tuple(sorted(names, key=_rank))


def _rank(name: str) -> tuple[int, int, str]:
    form = NAME.fullmatch(name)
    if form is None:
        raise BadRequest("{!r} is not a MIG profile name such as 3g.40gb".format(name))
    return -int(form.group("gib")), -int(form.group("slices")), name


def place(wanted: Wanted, profiles: list[Profile]) -> list[Placed]:
    """Return a place for every wanted instance. Raises Refused for an unknown profile or too many instances."""
    by_name = {profile.name: profile for profile in profiles}
    unknown = [name for name in wanted.instances if name not in by_name]
    if unknown:
        offered = ", ".join(sorted(by_name, key=_rank))
        raise Refused("gpu {}: no MIG profile {} (it has: {})".format(wanted.gpu, unknown[0], offered))
    chosen = [by_name[name] for name in wanted.instances]
    over = [profile for profile in chosen if chosen.count(profile) > profile.limit]
    placed = None if over else _fit(chosen, frozenset())
    if placed is None:
        together = ", ".join(wanted.instances)
        raise Refused("gpu {}: {} do not fit together".format(wanted.gpu, together))
    return placed


def _fit(profiles: list[Profile], taken: frozenset[int]) -> list[Placed] | None:
    """Return places that do not overlap, the highest first: it leaves the low ones, where all profiles fit."""
    if not profiles:
        return []
    first, rest = profiles[0], profiles[1:]
    for start in sorted(first.starts, reverse=True):
        cells = frozenset(range(start, start + first.size))
        others = None if cells & taken else _fit(rest, taken | cells)
        if others is not None:
            return [Placed(first, start), *others]
    return None

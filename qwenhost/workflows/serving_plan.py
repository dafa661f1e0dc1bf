"""Plan how to serve a model: on boards that are only named, or on hosts as they are found."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from qwenhost.expectations import model_shapes, partitions
from qwenhost.expectations import serving_tables as tables
from qwenhost.expectations.reader import did_you_mean
from qwenhost.expectations.skus import skus
from qwenhost.records.desired import Sku
from qwenhost.records.errors import USAGE, QwenhostError
from qwenhost.records.fit import Fit, Place, Question
from qwenhost.records.host import Host
from qwenhost.records.model_shape import ModelShape
from qwenhost.serving.fit import fit
from qwenhost.workflows.calibration import calibrated
from qwenhost.workflows.checkpoint import shape_in
from qwenhost.workflows.doctor import expectations_on

MIB_PER_GIB = 1024


def model_of(name: str) -> tuple[ModelShape, str]:
    """Return shape and precision of a model by its name, or of a checkpoint's folder. Raises QwenhostError."""
    folder = Path(name)
    if "/" in name and (folder.is_absolute() or folder.is_dir()):
        shape = shape_in(folder)
        return shape, next(iter(shape.weight_bytes))
    return model_shapes.by_name(name)


HERE = "localhost"
"""Name of this host where none is given."""


@dataclass(frozen=True)
class Target:
    """GPUs to plan for, and the names under which their calibrations are kept, the nearest first."""

    places: tuple[Place, ...]
    names: tuple[str, ...]


def boards(sku_name: str, gpus: int) -> Target:
    """Return so many boards of a product; no host is asked. Raises QwenhostError for an unknown product."""
    sku = skus().get(sku_name)
    if sku is None:
        raise QwenhostError(f"there is no board {sku_name}", hint=did_you_mean(sku_name, skus()), exit_code=USAGE)
    return Target(places(sku, gpus), (sku.name,))


def seen(host: Host | None) -> Target:
    """Return the GPUs of a host over SSH, or of this one (None), as declared and, for the rest, as found.

    Raises QwenhostError where its GPUs are not known.
    """
    want = expectations_on(host)
    if want.sku is None or not want.gpus:
        raise QwenhostError(
            f"{host.name if host else 'this host'}: its GPUs are not known",
            hint="see qwenhost doctor, or name them: --sku NAME --gpus N",
        )
    found = places(want.sku, want.gpus, bridged=bool(want.bridged_pairs))
    return Target(found, (host.name if host else HERE, want.sku.name))


def plan(question: Question, target: Target) -> Fit:
    """Plan with what was measured of the target, where something was."""
    return fit(calibrated(question, *target.names), target.places)


def places(sku: Sku, gpus: int, bridged: bool = False) -> tuple[Place, ...]:
    """Return the GPUs as they are, and cut into each MIG profile that leaves no other on them."""
    memory = tables.usable_gib(sku)
    if memory is None:
        raise QwenhostError(f"the memory size of {sku.name} is not known", hint="the planner knows A100 boards")
    whole = Place(
        label=sku.product,
        count=gpus,
        memory_gib=memory,
        joined=_joined(sku, gpus, bridged),
        family=sku.family,
        memory_gb_per_s=tables.memory_gb_per_s(sku),
        bf16_tflops=tables.bf16_tflops(sku),
    )
    return (whole, *_slices(sku, gpus))


def _joined(sku: Sku, gpus: int, bridged: bool) -> int:
    """Return how many GPUs NVLink joins: all of a baseboard, two cards with a bridge between them."""
    on_baseboard = sku.form != "pcie" and sku.nvlink_links
    return gpus if on_baseboard else 2 if bridged else 1


def _slices(sku: Sku, gpus: int) -> tuple[Place, ...]:
    known = partitions.profiles(sku.mig).values() if sku.mig else ()
    return tuple(
        Place(
            label=f"{sku.product} {profile.name}",
            count=gpus * profile.max_instances,
            memory_gib=profile.memory_mib / MIB_PER_GIB,
            joined=1,
            family=sku.family,
            mig_profile=profile.name,
        )
        for profile in known
        if "+" not in profile.name
    )

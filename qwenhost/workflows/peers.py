"""Compare the hosts of one run: those of one product are peers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qwenhost.expectations.peers import least_members, majorities
from qwenhost.facts.board import Board
from qwenhost.facts.driver import DriverVersions
from qwenhost.facts.gpus import Gpus
from qwenhost.facts.kernels import RunningKernel
from qwenhost.facts.memory import Memory
from qwenhost.facts.pci import PciDevices
from qwenhost.facts.traits import PRODUCT, Traits, of_driver, of_firmware, of_hardware, of_kernel
from qwenhost.records.bundle import Bundle
from qwenhost.records.peers import Peers
from qwenhost.workflows.observed import fact_of


def peers_of(bundles: Sequence[Bundle]) -> Mapping[str, Peers]:
    """Return, by host, what most hosts of its product have, and which product most hosts of the run have.

    Nothing for too few hosts to compare.
    """
    if len(bundles) < least_members():
        return {}
    traits = {bundle.host: traits_of(bundle) for bundle in bundles}
    products = {own.get(PRODUCT, "") for own in traits.values()}
    found = {
        product: majorities([own for own in traits.values() if own.get(PRODUCT, "") == product])
        for product in products
    }
    of_all = {name: most for name, most in majorities(list(traits.values())).items() if name == PRODUCT}
    return {host: {**found[own.get(PRODUCT, "")], **of_all} for host, own in traits.items()}


def traits_of(bundle: Bundle) -> Traits:
    """Return all that can be compared of one host."""
    gpus, board = fact_of(bundle, Gpus), fact_of(bundle, Board)
    return {
        **of_driver(fact_of(bundle, DriverVersions)),
        **of_kernel(fact_of(bundle, RunningKernel)),
        **of_firmware(gpus, board),
        **of_hardware(gpus, fact_of(bundle, PciDevices), fact_of(bundle, Memory), board),
    }

"""Stand-ins of the driver's services: fabric manager, persistence daemon, and the switch that faults use."""

from __future__ import annotations

import argparse
import signal
import subprocess
import time

from . import state

POLL_SECONDS = 0.5
FABRIC_UNIT = "nvidia-fabricmanager.service"


def fabric_manager(arguments: list[str]) -> int:
    """Run as nv-fabricmanager: ends with 1 when its version is not that of the loaded driver."""
    parser = argparse.ArgumentParser(
        "nv-fabricmanager", description="Fabric manager of the qwenhost lab's simulator."
    )
    parser.add_argument("-c", "--config", help="accepted, not read")
    parser.add_argument("-v", "--version", action="store_true", help="print the version")
    chosen = parser.parse_args(arguments)
    values = state.read()
    own, driver = values["fabricmanager.version"], values["driver.module_version"]
    if chosen.version:
        print(f"Fabric Manager version is : {own}")
        return 0
    if own != driver:
        print(
            f"fabric manager NVIDIA GPU driver interface version {own} "
            f"don't match with driver version {driver}. "
            "Please update with matching NVIDIA driver package.",
            flush=True,
        )
        return 1
    print(
        f"Fabric Manager version {own} is running with {values['nvswitch.count']} NVSwitches (simulated)",
        flush=True,
    )
    print("Successfully configured all the available GPUs and NVSwitches to route NVLink traffic.", flush=True)
    _wait_for_stop()
    return 0


def persistence_daemon(arguments: list[str]) -> int:
    """Run as nvidia-persistenced: persistence mode is on while it runs."""
    parser = argparse.ArgumentParser("nvidia-persistenced", description="Simulated persistence daemon.")
    parser.add_argument("--user", help="accepted, not used")
    parser.add_argument("--verbose", action="store_true", help="accepted, not used")
    parser.parse_args(arguments)
    _set_persistence("1")
    _wait_for_stop()
    _set_persistence("0")
    return 0


def _set_persistence(mode: str) -> None:
    with state.change() as values:
        for slot in state.slots(values):
            values[f"gpu{slot}.persistence"] = mode


def _wait_for_stop() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    signal.sigwait({signal.SIGTERM, signal.SIGINT})


def watch(_arguments: list[str]) -> int:
    """Start, stop or restart the fabric manager when a fault that touches it is injected or cleared."""
    applied = _fabric_keys()
    if applied[0] == "1":
        _systemctl("stop")
    while True:
        time.sleep(POLL_SECONDS)
        wanted = _fabric_keys()
        if wanted != applied:
            _systemctl("stop" if wanted[0] == "1" else "restart")
            applied = wanted


def _fabric_keys() -> list[str]:
    values = state.read()
    return [values.get(key, "") for key in ("fabricmanager.refuse", "fabricmanager.version")]


def _systemctl(verb: str) -> None:
    subprocess.run(["systemctl", "--no-block", verb, FABRIC_UNIT], check=False)

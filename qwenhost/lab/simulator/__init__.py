"""Stateful simulator of an A100 host: NVML, nvidia-smi, sysfs and proc stand-ins, services, faults.

It stands in for hardware, so that provisioning can be proven without any. What it answers is modelled on
public captures of A100 hosts; it moves no data and runs no CUDA. Its programs name themselves as such.
"""

from qwenhost.lab.simulator.install import install, install_on_kernel

__all__ = ["install", "install_on_kernel"]

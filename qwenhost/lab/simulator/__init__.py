"""Stateful simulator of an A100 host: NVML, nvidia-smi, sysfs and proc stand-ins, services, faults."""

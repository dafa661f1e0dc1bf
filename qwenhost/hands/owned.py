"""What qwenhost owns on a host: its files, and the units that it starts. A rollback touches nothing else."""

from __future__ import annotations

PATHS = (
    "etc/sysctl.d/90-qwenhost.conf",
    "etc/security/limits.d/90-qwenhost.conf",
    "etc/default/grub.d/90-qwenhost.cfg",
    "etc/modprobe.d/qwenhost-nvidia.conf",
    "etc/tmpfiles.d/qwenhost-*.conf",
    "etc/apt/sources.list.d/qwenhost-driver.sources",
    "etc/apt/preferences.d/90-qwenhost-driver",
    "etc/apt/apt.conf.d/52qwenhost-driver-upgrades",
    "etc/modprobe.d/qwenhost-driver.conf",
    "etc/systemd/system/nvidia-persistenced.service.d/qwenhost.conf",
    "etc/qwenhost/**",
    "etc/systemd/system/qwenhost-*.service",
    "etc/systemd/system/vllm@.service",
    "etc/systemd/system/vllm-proxy.service",
    "etc/systemd/system/vllm@*.service.d/**",
    "etc/systemd/system/*.wants/qwenhost-*.service",
    "etc/systemd/system/*.wants/vllm@*.service",
    "etc/systemd/system/*.wants/vllm-proxy.service",
    "usr/local/lib/qwenhost/**",
    "opt/qwenhost/vllm/current",
    "var/lib/qwenhost/vllm/*.applied",
    "var/lib/qwenhost/vllm/before-switch.json",
    "var/lib/qwenhost/vllm/unproven",
)
"""Globs below the root. Installed environments and models are kept: they are large, and nothing reads them
without the configuration. The driver's packages stay: another driver is a transaction and a reboot of its own."""

SECRETS = ("etc/qwenhost/vllm/api_key",)
"""Files of which no copy is made."""

UNITS = ("vllm@*.service", "vllm-proxy.service", "qwenhost-*.service")

ONCE = "qwenhost-"
"""How the units begin that set the host once, at boot."""

FOLDERS = ("etc/qwenhost", "usr/local/lib/qwenhost", "etc/systemd/system/vllm@")
"""Folders, by the start of their path, that go when their last file goes."""

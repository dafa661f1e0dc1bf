"""Simulated A100 hosts: real Debian, systemd and SSH in containers of this machine, with a simulated driver."""

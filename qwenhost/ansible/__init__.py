"""The Ansible door: action plugins that examine and act over Ansible's own connection."""

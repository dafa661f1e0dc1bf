"""Action plugins by name; Ansible finds them through ansible.cfg."""

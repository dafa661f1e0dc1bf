"""`qwenhost path PART`: where playbooks, roles and templates are, for plain `ansible-playbook`."""

from __future__ import annotations

import click

from qwenhost.workflows.content import content_dir


@click.command()
@click.argument("part", type=click.Choice(["playbooks", "roles", "templates", "ansible.cfg"]))
def command(part: str) -> None:
    """Print the path of PART, such as: ansible-playbook -i inventory.yml $(qwenhost path playbooks)/provision.yml

    Ansible finds roles and plugins through ansible.cfg: ANSIBLE_CONFIG=$(qwenhost path ansible.cfg).
    """
    click.echo(content_dir() / part)

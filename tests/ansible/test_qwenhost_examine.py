"""The playbook in a real ansible-playbook, over the local connection, on a machine without a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NVIDIA = Path("/proc/driver/nvidia")


@pytest.mark.slow
@pytest.mark.skipif(NVIDIA.exists(), reason="this machine has an NVIDIA driver")
def test_a_machine_without_gpu_is_stopped_in_one_line(tmp_path: Path) -> None:
    """Nothing was declared to be changed and nothing is: the run ends at what no role can put right."""
    variables = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    hosts = {"h1": {**variables, "qwenhost_sku": "a100-sxm4-80gb", "qwenhost_gpus": 8}}
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(json.dumps({"all": {"hosts": hosts}}))
    program = Path(sys.executable).with_name("ansible-playbook")
    places = {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_HOME": str(tmp_path), "ANSIBLE_NOCOLOR": "1"}
    ran = subprocess.run(
        [program, "-i", inventory, "--check", "--diff", ROOT / "playbooks/provision.yml"],
        capture_output=True,
        text=True,
        env={**os.environ, **places},
        check=False,
    )
    assert ran.returncode == 2, ran.stdout + ran.stderr
    refusals = [line.strip() for line in ran.stdout.splitlines() if line.strip().startswith("msg:")]
    assert len(refusals) == 1, ran.stdout
    assert "driver.present" in refusals[0] or "gpu.count" in refusals[0], refusals[0]
    assert "TASK [Tune the host]" not in ran.stdout
    assert "changed=0" in ran.stdout

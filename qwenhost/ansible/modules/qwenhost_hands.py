"""Documentation of the action plugin of this name; the act runs on the host, from an archive sent to it."""

DOCUMENTATION = r"""
---
module: qwenhost_hands
short_description: Bring kernel settings, huge pages or a MIG layout of a GPU host into force
description:
  - Sends a small archive over Ansible's own connection, where the host's Python runs one act of it from memory.
  - Every act compares first, changes only what differs and reads back what it changed.
  - Supports check mode and diff mode.
options:
  act:
    description:
      - V(sysctl) sets kernel settings in the running kernel.
      - V(thp) sets the mode of transparent huge pages.
      - V(hugepages) sizes pools of huge pages, of the host or of a NUMA node.
      - V(tuning) does these in one act, and writes what the next boot needs for them.
      - V(driver) installs the GPU driver's packages in one transaction, holds them, has the module built.
      - V(driver-look) tells whether a source has the driver, and changes nothing.
      - V(mig) sets the MIG mode of GPUs and creates their instances.
      - V(wait-gpu) waits until GPUs, or MIG instances, have free memory.
      - V(api-key) writes the API key of the service, or makes one where there is none.
      - V(model) verifies the files of a model, and keeps their sums.
      - V(model-room) looks for room for a model, V(model-place) verifies a pushed one and gives it its name.
      - V(switch-keep) keeps what serves now, V(switch-back) brings it back, V(switch-prove) forgets it.
      - V(http) sends one request to a service on the host's loopback.
    type: str
    required: true
    choices:
      - sysctl
      - thp
      - hugepages
      - tuning
      - driver
      - driver-look
      - mig
      - wait-gpu
      - api-key
      - http
      - model
      - model-room
      - model-place
      - switch-keep
      - switch-back
      - switch-prove
  request:
    description:
      - "V(sysctl): C(values), a map of kernel settings to their values."
      - "V(thp): C(mode), one of always, madvise and never."
      - "V(hugepages): C(pools), a list of C(node) (-1 for the whole host), C(size_kib) and C(pages)."
      - "V(tuning): the requests of V(sysctl), V(thp) and V(hugepages) by these names; C(kernel-args) with
        C(args), a list of words; C(module-options) with C(options); C(governor), C(swap), C(shm);
        C(files) with C(files), a map of paths to texts (empty: the file goes); C(boot-unit) with C(service) and
        its C(files)."
      - "V(driver) and V(driver-look): C(version), C(packages), C(kernels), a list of C(release) and C(headers);
        C(source) with C(uri) and one of C(key), C(key_url) and C(trusted)."
      - "V(mig): C(layout), a list of C(gpu), C(mig) and C(instances); C(timeout_seconds)."
      - "V(wait-gpu): C(gpus), indices or UUIDs; C(free_fraction) of their memory; C(timeout_seconds)."
      - "V(api-key): C(key), empty to keep or make one."
      - "V(model), V(model-place): C(path), the model's folder; V(model-room): C(bytes), too."
      - "V(switch-keep): C(to), the version that is switched to."
      - "V(http): C(base_url), C(method), C(path), C(headers), C(body), C(timeout_seconds), C(bearer_file)."
    type: dict
    required: true
author: qwenhost
"""

EXAMPLES = r"""
- name: Split GPU 0 into two instances
  qwenhost_hands:
    act: mig
    request:
      layout:
        - {gpu: 0, mig: true, instances: [3g.40gb, 3g.40gb]}
"""

RETURN = r"""
before:
  description: Readable lines of what was in force.
  type: list
  returned: for every act but http
after:
  description: The same lines of what is in force now, or would be in check mode.
  type: list
  returned: for every act but http
reboot_required:
  description: Whether the rest takes effect with the next boot only.
  type: bool
  returned: for every act but http
reason:
  description: Why a reboot is required.
  type: str
  returned: for every act but http
"""

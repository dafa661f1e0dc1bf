"""How distributions and tools tell of kernels, packages, signatures and dates; the values are made up."""

from __future__ import annotations

import json

import pytest

from qwenhost.facts.capture_date import stamped
from qwenhost.facts.container_errors import ERRORS, device_rules
from qwenhost.facts.containers import CDI, DAEMON, INFO, PROGRAMS, cdi_spec, daemon_json, docker_info
from qwenhost.facts.cuda_libraries import libraries_in_cache
from qwenhost.facts.kernels import INSTALLED, installed_kernels, running_kernel, running_kernel_from_uname
from qwenhost.facts.module_build import module_file, module_log, modules_from_status
from qwenhost.facts.packages import DPKG, LOCKS, RPM, packages_from_dpkg, packages_from_rpm
from qwenhost.facts.reboot import REQUIRED, reboot_request
from qwenhost.facts.secure_boot import FIRMWARE, from_firmware, from_mokutil
from qwenhost.facts.upgrades import last_upgrade, last_upgrade_by_dnf
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable


def ok(text: str) -> Capture:
    return Capture("test", "ok", text)


UBUNTU = """\
/proc/version
/boot/vmlinuz-6.8.0-60-generic
/boot/vmlinuz-6.8.0-9-generic
/lib/modules/6.8.0-60-generic/kernel/nvidia-580srv/nvidia.ko
/lib/modules/6.8.0-60-generic/build
"""
RHEL = """\
/boot/vmlinuz-5.14.0-503.el9.x86_64
/boot/vmlinuz-0-rescue-0123456789abcdef0123456789abcdef
/lib/modules/5.14.0-503.el9.x86_64/vmlinuz
/lib/modules/5.14.0-503.el9.x86_64/weak-updates/nvidia/nvidia.ko.xz
/lib/modules/5.14.0-427.el9.x86_64/extra/drivers/video/nvidia/nvidia-uvm.ko.xz
/lib/modules/5.14.0-427.el9.x86_64/vmlinuz
"""


@pytest.mark.parametrize(
    ("listing", "running", "following", "with_module"),
    [
        (UBUNTU, "6.8.0-9-generic", "6.8.0-60-generic", {"6.8.0-60-generic"}),
        (RHEL, "5.14.0-427.el9.x86_64", "5.14.0-503.el9.x86_64", {"5.14.0-503.el9.x86_64"}),
    ],
)
def test_kernels(listing: str, running: str, following: str, with_module: set[str]) -> None:
    assert INSTALLED.recognises(listing)
    found = installed_kernels(ok(listing))
    boots = found.next_boot(running)
    assert boots is not None
    assert boots.release == following
    assert {kernel.release for kernel in found.kernels if kernel.module} == with_module


def test_kernels_that_cannot_be_seen() -> None:
    assert installed_kernels(ok("/proc/version\n")).kernels == ()
    for listing in ("/proc/version\n/boot\n", "nothing of it\n"):
        with pytest.raises(Unparsable):
            installed_kernels(ok(listing))


def test_the_running_kernel() -> None:
    assert running_kernel(ok("Linux version 6.8.0-60-generic (b@h) (gcc) #63\n")).release == "6.8.0-60-generic"
    uname = "Linux node7 5.14.0-503.el9.x86_64 #1 SMP PREEMPT_DYNAMIC x86_64 GNU/Linux\n"
    assert running_kernel_from_uname(ok(uname)).release == "5.14.0-503.el9.x86_64"


LISTED = """\
Desired=Unknown/Install/Remove/Purge/Hold
ii  nvidia-container-toolkit       1.18.0-1                 amd64        NVIDIA Container toolkit
hi  nvidia-driver-580-server       580.95.05-0ubuntu0.22.04 amd64        NVIDIA Server Driver metapackage
ii  libnvidia-compute-580:amd64    580.95.05-0ubuntu0.22.04 amd64        NVIDIA libcompute package
rc  nvidia-driver-535              535.161.08-0ubuntu1      amd64        NVIDIA driver metapackage
ii  cuda-compat-13-0               580.82.07-0ubuntu1       amd64        CUDA Compatibility Platform
"""


def test_packages() -> None:
    found = packages_from_dpkg(ok(LISTED))
    assert DPKG.recognises(LISTED)
    assert [package.name for package in found.driver] == ["nvidia-driver-580-server", "libnvidia-compute-580"]
    assert (found.driver_versions, found.held) == (("580.95.05",), True)
    assert all(package.of_distribution for package in found.driver)
    rpms = "nvidia-driver-cuda-580.95.05-1.el9.x86_64\nkmod-nvidia-latest-dkms-3:580.95.05-1.el9.x86_64\n"
    assert RPM.recognises(rpms)
    assert packages_from_rpm(ok(rpms)).driver_versions == ("580.95.05",)
    assert not packages_from_rpm(ok(rpms)).held


@pytest.mark.parametrize(
    ("variable", "enabled"), [("\x06\0\0\0\x01", True), ("\x06\0\0\0\0", False), ("", None), (None, False)]
)
def test_secure_boot(variable: str | None, enabled: bool | None) -> None:
    files = {"/proc/sys/kernel/osrelease": "6.8.0\n"}
    if variable is not None:
        files["/sys/firmware/efi/fw_platform_size"] = "64\n"
    if variable:
        files["/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"] = variable
    assert FIRMWARE.recognises(json.dumps(files))
    assert from_firmware(ok(json.dumps(files))).enabled is enabled


def test_mokutil() -> None:
    assert from_mokutil(ok("SecureBoot enabled\n")).enabled is True
    assert from_mokutil(ok("SecureBoot disabled\nPlatform is in Setup Mode\n")).enabled is False
    none = Capture("mokutil", "failed", error="exit code 255: EFI variables are not supported on this system")
    assert from_mokutil(none).enabled is False


def test_a_request_to_reboot() -> None:
    files = {
        "/run/reboot-required": "*** System restart required ***\n",
        "/run/reboot-required.pkgs": "libc6\nlibc6\n",
    }
    both = json.dumps({"/proc/sys/kernel/random/boot_id": "0\n", **files})
    assert REQUIRED.recognises(both)
    assert reboot_request(ok(both)).packages == ("libc6",)


@pytest.mark.parametrize(
    ("head", "month"),
    [
        ("Tue Dec  1 03:17:08 2026       \n+------", "2026-12"),
        ("Timestamp                                 : Mon Nov 30 10:11:12 2026\n", "2026-11"),
        ("\t<timestamp>Sun Feb  8 01:02:03 2026</timestamp>\n", "2026-02"),
    ],
)
def test_the_date_of_a_capture(head: str, month: str) -> None:
    assert stamped(ok(head)).month == month


def test_upgrades_that_did_not_touch_the_driver() -> None:
    apt = "Start-Date: 2026-11-01  06:00:00\nCommandline: apt upgrade\nUpgrade: curl:amd64 (8.5-1, 8.5-2)\n"
    assert last_upgrade(ok(apt)).told == ""
    assert last_upgrade_by_dnf(ok("2026-11-01T06:00:00+0000 SUBDEBUG Upgrade: curl-8.5-2.el9.x86_64\n")).told == ""


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Error! Bad return status for module build on kernel: 6.8.0-60-generic (x86_64)", "build_failures"),
        ("Error! Build of nvidia.ko failed for: 6.8.0-60-generic (x86_64)", "build_failures"),
        ("ERROR: Unable to build the NVIDIA kernel module.", "build_failures"),
        ("modprobe: ERROR: could not insert 'nvidia': Operation not permitted", "rejections"),
        ("modprobe: FATAL: Module nvidia not found in directory /lib/modules/6.8.0-60-generic", "unfit"),
        ("modprobe: ERROR: could not insert 'nvidia': Exec format error", "unfit"),
    ],
)
def test_what_installers_say(said: str, kind: str) -> None:
    log = module_log(ok(said + "\n"))
    assert {name: getattr(log, name) for name in ("build_failures", "rejections", "unfit")} == {
        "build_failures": (),
        "rejections": (),
        "unfit": (),
        kind: (said,),
    }


def test_states_of_dkms() -> None:
    text = "nvidia/580.95.05, 6.8.0-60-generic, x86_64: installed\nnvidia, 570.86.15: added\nzfs/2.2: added\n"
    found = modules_from_status(ok(text))
    assert [module.state for module in found.modules] == ["installed", "added"]
    assert found.superseded(found.modules[1])


def test_the_module_on_disk() -> None:
    text = "filename:       /lib/modules/6.8.0/updates/dkms/nvidia.ko.zst\nversion:        580.95.05\n"
    assert module_file(ok(text)).signer == ""
    assert module_file(ok(f"{text}signer:         node7 Secure Boot Module Signature key\n")).signer


def test_libraries_of_both_architectures() -> None:
    text = "9 libs found in cache `/etc/ld.so.cache'\n\tlibcuda.so.1 (libc6,{}) => {}/libcuda.so.1\n"
    for architecture in ("x86-64", "AArch64"):
        found = libraries_in_cache(ok(text.format(architecture, "/usr/local/cuda-13.1/compat")))
        assert found.compat_cuda == "13.1"
    assert libraries_in_cache(ok(text.format("x86-64", "/lib"))).compat == ""


def test_docker_and_its_files() -> None:
    info = " Server Version: 29.1.0\n Cgroup Driver: systemd\n Runtimes: io.containerd.runc.v2 nvidia runc\n"
    assert INFO.recognises(info)
    assert (docker_info(ok(info)).cgroup_driver, docker_info(ok(info)).hands_out_gpus) == ("systemd", True)
    daemon = '{\n "exec-opts": ["native.cgroupdriver=cgroupfs"],\n "runtimes": {"nvidia": {"path": "x"}}\n}\n'
    assert DAEMON.recognises(daemon)
    assert daemon_json(ok(daemon)).cgroup_driver == "cgroupfs"
    for spec in (
        '{"cdiVersion": "0.6.0", "mounts": ["/lib/libcuda.so.570.86.15"]}',
        "cdiVersion: 0.5.0\n- a/libcuda.so.570.86.15\n",
    ):
        assert CDI.recognises(spec)
        assert cdi_spec(ok(spec)).cdi_driver == "570.86.15"
    assert PROGRAMS.recognises("/proc/filesystems\n")


def test_device_rules_of_a_container() -> None:
    assert device_rules(ok("c 1:5 rwm\nc 195:* m\n")).shut_out == "c 195:* m"
    assert device_rules(ok("c 195:* m\nc 195:255 rw\n")).shut_out == ""
    assert ERRORS.recognises("Failed to initialize NVML: Unknown Error\n")


def test_an_empty_answer_tells_nothing() -> None:
    assert LOCKS.recognises('{"/etc/os-release": "ID=debian\\n"}')
    for parse in (reboot_request, from_firmware):
        with pytest.raises(Unparsable):
            parse(ok("{}"))

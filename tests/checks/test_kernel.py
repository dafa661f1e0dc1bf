"""host.hung-tasks, host.oom and host.machine-check: each fault in the wordings of several kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from qwenhost.checks.engine import examine
from qwenhost.records.bundle import Bundle
from qwenhost.records.desired import Expectations
from qwenhost.records.finding import Finding
from tests.checks.conftest import added, logged, of, only, without

Verdicts = Callable[..., dict[str, str]]

CHECKS = ("host.hung-tasks", "host.oom", "host.machine-check")
OF_THE_LOG = (*CHECKS, "gpu.xid", "gpu.gsp", "pcie.aer", "fabric.switch-errors")

HUNG = "INFO: task {}:{} blocked for more than {} seconds."

IN_DRIVER = (
    HUNG.format("nvidia-smi", 4242, 120),
    "      Tainted: P           OE     5.15.0-112-generic #122-Ubuntu",
    '"echo 0 > /proc/sys/kernel/hung_task_timeout_secs" disables this message.',
    "task:nvidia-smi      state:D stack:    0 pid: 4242 ppid:  4200 flags:0x00004006",
    "Call Trace:",
    " <TASK>",
    " __schedule+0x24e/0x590",
    " schedule+0x69/0x110",
    " rwsem_down_write_slowpath+0x230/0x3e0",
    " down_write+0x47/0x60",
    " os_acquire_rwlock_write+0x35/0x50 [nvidia]",
    " _nv043210rm+0x10/0x40 [nvidia]",
)
IN_DRIVER_OLD = (
    HUNG.format("python", 77, 120),
    "Call Trace:",
    " [<ffffffff8163a879>] schedule+0x29/0x70",
    " [<ffffffff81637000>] ? wait_for_completion+0x116/0x170",
    " [<ffffffffa0a0b0c0>] uvm_va_space_destroy+0x48/0x2d0 [nvidia_uvm]",
)
IN_DRIVER_NEW = (
    HUNG.format("VLLM::Worker_TP3", 5150, 245),
    "      Not tainted 6.14.0-24-generic #24-Ubuntu",
    " schedule_preempt_disabled+0x15/0x30",
    " __mutex_lock.constprop.0+0x4f0/0x8e0",
    " nvidia_ioctl+0x1a0/0x8b0 [nvidia 1b2c3d4e5f]",
    "INFO: task VLLM::Worker_TP3:5150 is blocked on a mutex likely owned by task VLLM::Worker_TP0:5147.",
)
IN_NFS = (
    HUNG.format("python3", 900, 120),
    " io_schedule+0x46/0x80",
    " folio_wait_bit_common+0x136/0x330",
    " nfs_wait_on_request+0x53/0x70 [nfs]",
)
IN_EXT4 = (
    HUNG.format("jbd2/nvme0n1p2-8", 700, 122),
    " __schedule+0x2d1/0x860",
    " ? nv_probe+0x12/0x90 [nvidia]",
    " jbd2_journal_commit_transaction+0x2f9/0x19f0 [jbd2]",
)
UNOWNED = (HUNG.format("kworker/u64:2", 31, 120), " __schedule+0x2d1/0x860", " do_exit+0x11/0x20")
STUCK = (
    "watchdog: BUG: soft lockup - CPU#17 stuck for 22s! [python3:4242]",
    "Modules linked in: nvidia_uvm(POE) nvidia(POE)",
    "RIP: 0010:os_delay_us+0x30/0x40 [nvidia]",
    " rm_perform_version_check+0x10/0x90 [nvidia]",
)
STUCK_OLD = ("NMI watchdog: BUG: soft lockup - CPU#3 stuck for 23s! [kswapd0:210]", " shrink_page_list+0x1/0x2")


@pytest.mark.parametrize(
    ("lines", "verdict", "words"),
    [
        pytest.param(IN_DRIVER, "fail", "nvidia-smi blocked x1 in GPU driver (nvidia)", id="driver"),
        pytest.param(IN_DRIVER_OLD, "fail", "in GPU driver (nvidia_uvm)", id="driver, 3.10"),
        pytest.param(
            IN_DRIVER_NEW, "fail", "VLLM::Worker_TP3 blocked x1 in GPU driver (nvidia)", id="driver, 6.14"
        ),
        pytest.param(IN_NFS, "warn", "in storage (nfs), not the GPU", id="nfs"),
        pytest.param(IN_EXT4, "warn", "in storage (jbd2), not the GPU", id="ext4"),
        pytest.param(UNOWNED, "warn", "in code of no known owner", id="nobody's"),
        pytest.param(STUCK, "fail", "kept a processor busy x1 in GPU driver", id="soft lockup"),
        pytest.param(STUCK_OLD, "warn", "kswapd0 kept a processor busy", id="soft lockup, 4.18"),
        pytest.param((*IN_NFS, *IN_NFS, *IN_NFS), "warn", "python3 blocked x3", id="repeated"),
    ],
)
def test_hung_tasks(healthy: Bundle, want: Expectations, lines: tuple[str, ...], verdict: str, words: str) -> None:
    (row,) = told(logged(healthy, *lines), want, "host.hung-tasks")
    assert row.verdict == verdict and words in row.observed
    assert (row.remedy.kind == "reboot") == (verdict == "fail")


def told(bundle: Bundle, want: Expectations, check: str) -> list[Finding]:
    return of(examine(bundle, want), check)


def test_a_hung_driver_is_a_consequence_of_the_gpu(healthy: Bundle, want: Expectations) -> None:
    lost = "NVRM: Xid (PCI:0000:4c:00): 79, pid=7, name=x, GPU has fallen off the bus."
    driver, storage = told(logged(healthy, lost, *IN_DRIVER, *IN_NFS), want, "host.hung-tasks")
    assert driver.verdict == "note" and "a consequence of Xid 79 of 0000:4c:00.0" in driver.observed
    assert storage.verdict == "warn"


def test_tasks_that_hang_in_a_driver_that_does_not_answer_are_its_consequence(
    healthy: Bundle, want: Expectations
) -> None:
    asked = {"nvml", *(capture.source for capture in healthy.captures if capture.source.startswith("nvidia-smi"))}
    silent = [
        replace(capture, status="timeout", text="") if capture.source in asked else capture
        for capture in logged(healthy, *IN_DRIVER, *IN_NFS).captures
    ]
    driver, storage = told(replace(healthy, captures=tuple(silent)), want, "host.hung-tasks")
    assert (driver.verdict, driver.cause) == ("fail", "driver.present")
    assert (storage.verdict, storage.cause) == ("warn", "")


OOM_NEW = (
    "{0} invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, oom_score_adj=0",
    "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0-1,global_oom,"
    "task_memcg=/system.slice/{1},task={0},pid=4242,uid=0",
    "Out of memory: Killed process 4242 ({0}) total-vm:987654321kB, anon-rss:838860800kB, file-rss:4kB, "
    "shmem-rss:0kB, UID:0 pgtables:1928kB oom_score_adj:0",
    "oom_reaper: reaped process 4242 ({0}), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB",
)
OOM_GROUP = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,oom_memcg={1},"
    "task_memcg={1},task={0},pid=77,uid=0",
    "Memory cgroup out of memory: Killed process 77 ({0}) total-vm:9kB, anon-rss:8388608kB, file-rss:4kB, UID:0",
)
OOM_OLD = (
    "Out of memory: Kill process 4242 ({0}) score 912 or sacrifice child",
    "Killed process 4242 ({0}) total-vm:98765432kB, anon-rss:8388608kB, file-rss:0kB, shmem-rss:0kB",
)
OOM_GROUP_OLD = (
    "Task in {1} killed as a result of limit of {1}",
    "Memory cgroup out of memory: Kill process 77 ({0}) score 1001 or sacrifice child",
    "Killed process 77 ({0}) total-vm:9876543kB, anon-rss:8388608kB, file-rss:0kB",
)


@pytest.mark.parametrize(
    ("form", "task", "group", "verdict", "words"),
    [
        pytest.param(
            OOM_NEW, "VLLM::EngineCor", "vllm@main.service", "fail", "host had no memory left", id="vllm"
        ),
        pytest.param(OOM_NEW, "python3", "vllm@main.service", "fail", "it had 819200 MiB", id="vllm by its group"),
        pytest.param(OOM_NEW, "postgres", "db.service", "warn", "host had no memory left", id="another, host"),
        pytest.param(
            OOM_OLD, "python3", "", "warn", "x1: the host had no memory left, it had 8192 MiB", id="4.14"
        ),
        pytest.param(OOM_OLD, "VLLM::Worker_TP", "", "fail", "the host had no memory left", id="vllm, 4.14"),
        pytest.param(
            OOM_GROUP, "pt_main_thread", "/docker/ab12", "warn", "control group /docker/ab12", id="cgroup"
        ),
        pytest.param(OOM_GROUP, "VLLM::EngineCor", "/kubepods/p1", "fail", "control group /kubepods/p1", id="pod"),
        pytest.param(OOM_GROUP, "grafana", "/docker/cd34", "note", "control group /docker/cd34", id="someone's"),
        pytest.param(
            OOM_GROUP_OLD, "python", "/docker/ef56", "warn", "control group /docker/ef56", id="cgroup, 4.14"
        ),
    ],
)
def test_killed_for_want_of_memory(
    healthy: Bundle, want: Expectations, form: tuple[str, ...], task: str, group: str, verdict: str, words: str
) -> None:
    (row,) = told(logged(healthy, *[line.format(task, group) for line in form]), want, "host.oom")
    assert (row.verdict, row.subject) == (verdict, f"process {task}")
    assert words in row.observed and row.observed.startswith("killed x1")
    assert ("MemoryMax=" in row.remedy.text) == ("group" in words)


BANK = "mce: [Hardware Error]: CPU {}: Machine Check{}: 0 Bank 7: {}"
CORRECTED = "8c00004000010090"
UNCORRECTED = "be00000000800400"


def firmware(severity: str, section: str, number: str = "{1}") -> tuple[str, ...]:
    return (
        f"{number}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 4",
        f"{number}[Hardware Error]: event severity: {severity}",
        f"{number}[Hardware Error]:  Error 0, type: {severity}",
        f"{number}[Hardware Error]:   section_type: {section}",
    )


ON_DIMM = "on CPU_SrcID#0_MC#1_Chan#0_DIMM#0 (channel:0 slot:0 page:0x1a2b offset:0x0 grain:32)"

CORRECTED_FORMS = [
    (BANK.format(12, "", CORRECTED),),
    (BANK.format(12, " Event", CORRECTED), "mce: [Hardware Error]: Machine check events logged"),
    (f"EDAC MC0: 1 CE memory read error {ON_DIMM}",),
    (f"EDAC skx MC1: 1 CE corrected memory error {ON_DIMM}",),
    ('EDAC MC0: CE page 0x1ff, offset 0xa0, grain 0, syndrome 0x1, row 2, label "DIMM_B1": amd64_edac',),
    firmware("corrected", "memory error"),
    ("[Hardware Error]: Corrected error, no action required.",),
    ("[Hardware Error]: Deferred error, no action required.",),
    ("mce: [Hardware Error]: Machine check events logged",),
]
UNCORRECTED_FORMS = [
    (BANK.format(3, "", UNCORRECTED),),
    ("mce: [Hardware Error]: CPU 3: Machine Check Exception: 5 Bank 5: be00000000800400",),
    (f"EDAC MC0: 1 UE memory read error {ON_DIMM}",),
    ('EDAC MC0: UE page 0x1ff, offset 0xa0, grain 0, row 2, labels "DIMM_B1": amd64_edac',),
    firmware("recoverable", "memory error"),
    firmware("fatal", "general processor error", ""),
    ("[Hardware Error]: Uncorrected, software restartable error.",),
    ("Memory failure: 0x12ab34: recovery action for dirty LRU page: Recovered",),
    ("Kernel panic - not syncing: Fatal machine check on current CPU",),
]
HARMLESS = [
    ("EDAC MC: Ver: 3.0.0", "EDAC MC0: Giving out device to module skx_edac controller Skylake Socket#0 IMC#0"),
    ("mce: CPU supports 32 MCE banks", "MCE: In-kernel MCE decoding enabled."),
    ("GHES: APEI firmware first mode is enabled by APEI bit and WHEA _OSC.", "HEST: Table parsing initialized."),
    ("mce: CPU3: Core temperature above threshold, cpu clock throttled (total events = 1)",),
    firmware("corrected", "PCIe error"),
    firmware("info", "memory error"),
]


@pytest.mark.parametrize("lines", CORRECTED_FORMS)
def test_corrected_errors_are_a_note(healthy: Bundle, want: Expectations, lines: tuple[str, ...]) -> None:
    (row,) = told(logged(healthy, *lines), want, "host.machine-check")
    assert (row.verdict, row.remedy.kind) == ("note", "none") and row.observed.startswith("1 corrected")


@pytest.mark.parametrize("lines", UNCORRECTED_FORMS)
def test_uncorrected_errors_fail(healthy: Bundle, want: Expectations, lines: tuple[str, ...]) -> None:
    (row,) = told(logged(healthy, *lines), want, "host.machine-check")
    assert (row.verdict, row.remedy.kind) == ("fail", "hardware") and row.observed.startswith("1 uncorrected")


@pytest.mark.parametrize("lines", HARMLESS)
def test_talk_of_hardware_errors_is_none(healthy: Bundle, verdicts: Verdicts, lines: tuple[str, ...]) -> None:
    assert "host.machine-check" not in verdicts(logged(healthy, *lines))


def test_corrected_errors_have_a_rate(healthy: Bundle, want: Expectations) -> None:
    days = "\n".join(f"2026-12-0{day}T00:00:00+0000 n kernel: EDAC MC0: 4 CE x {ON_DIMM}" for day in (1, 3, 5))
    (row,) = told(added(without(healthy, "dmesg"), "dmesg", f"{days}\n"), want, "host.machine-check")
    assert row.observed.startswith("12 corrected, CPU_SrcID#0_MC#1_Chan#0_DIMM#0, 3.0 a day, first at")


@pytest.mark.parametrize("check", CHECKS)
def test_no_log_is_unknown(healthy: Bundle, want: Expectations, check: str) -> None:
    assert [row.verdict for row in told(only(healthy, "nvml"), want, check)] == ["unknown"]


def with_cut_log(bundle: Bundle) -> Bundle:
    cut = replace(bundle.of("dmesg")[0], truncated=True)
    return replace(bundle, captures=(*without(bundle, "dmesg").captures, cut))


@pytest.mark.parametrize("check", OF_THE_LOG)
def test_a_log_that_was_cut_passes_nothing(healthy: Bundle, want: Expectations, check: str) -> None:
    assert [row.verdict for row in told(healthy, want, check)] == ["pass"]
    assert [row.verdict for row in told(with_cut_log(healthy), want, check)] == ["unknown"]


AER = "/sys/bus/pci/devices/0000:40:01.1/aer_dev_"


@pytest.mark.parametrize(
    ("check", "source", "text"),
    [
        ("pcie.aer", "pcie-errors", f'{{"{AER}fatal": "DLP 0\\nTOTAL_ERR_FATAL 0\\n"}}'),
        ("nvlink.errors", "", ""),  # NVML's own counters
    ],
)
def test_counters_stand_in_for_a_log_that_was_cut(
    healthy: Bundle, want: Expectations, check: str, source: str, text: str
) -> None:
    bundle = with_cut_log(added(healthy, source, text) if source else healthy)
    (row,) = told(bundle, want, check)
    assert (row.verdict, row.observed[:16]) == ("pass", "no error counted")


def test_nvlink_errors_of_a_cut_log_alone(healthy: Bundle, want: Expectations) -> None:
    logs = with_cut_log(only(healthy, "dmesg"))
    assert [row.verdict for row in told(logs, want, "nvlink.errors")] == ["unknown"]


@pytest.mark.parametrize("check", CHECKS)
def test_a_boot_settles_it(healthy: Bundle, want: Expectations, check: str) -> None:
    lines = (*IN_DRIVER, *[line.format("python", "x") for line in OOM_NEW], *UNCORRECTED_FORMS[0])
    assert told(logged(healthy, *lines), want, check)[0].verdict != "pass"
    settled = logged(healthy, *lines, "Linux version 6.8.0-60-generic (builder@host) #1 SMP")
    assert [row.verdict for row in told(settled, want, check)] == ["pass"]


@pytest.mark.parametrize("check", CHECKS)
def test_two_logs_of_one_host_count_once(healthy: Bundle, want: Expectations, check: str) -> None:
    lines = (*IN_NFS, *[line.format("python", "x") for line in OOM_NEW], *UNCORRECTED_FORMS[0])
    once = logged(healthy, *lines)
    journal = "".join(f"Dec  1 00:00:00 n kernel: {line}\n" for line in lines)
    twice = replace(once, captures=(*once.captures, *added(only(once), "dmesg", journal).captures))
    counts = [row.observed.partition(", ")[0] for row in told(twice, want, check)]
    assert counts == [row.observed.partition(", ")[0] for row in told(once, want, check)]

"""tuning: all settings in one act; governor, swap, shared memory and module options as it does them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from qwenhost.hands import command, governor, hugepages, kernel, shm, swap
from qwenhost.hands.answer import Refused
from tests.hands.conftest import Hands

BOOT = "11111111-2222-4333-8444-555555555555"
GOVERNORS = [f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor" for cpu in (0, 1)]
OPTIONS = "etc/modprobe.d/qwenhost-nvidia.conf"
PARAMS = "proc/driver/nvidia/params"
SWAPS = "Filename\tType\tSize\tUsed\tPriority\n/dev/sda2 partition 1 0 -2\n/swap\\040file file 1 0 5\n"
RUN = {"run": "one", "controller": "ann@desk process 1 of 2"}


@pytest.fixture
def host(root: Path) -> Path:
    """A host with two processors and the driver's parameters."""
    texts = dict.fromkeys(GOVERNORS, "powersave\n")
    texts |= {PARAMS: 'EnableMSI: 1\nRmMsg: ""\n', "proc/sys/kernel/random/boot_id": f"{BOOT}\n"}
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_every_part_is_done_in_one_act(hands: Hands, host: Path) -> None:
    request = {
        "sysctl": {"values": {"vm.swappiness": 1}},
        "thp": {"mode": "madvise"},
        "governor": {"governor": "performance"},
        "module-options": {"options": {"NVreg_EnableMSI": 0}},
    }
    checked = hands("tuning", request, "--check")
    assert not (host / OPTIONS).exists()
    done = hands("tuning", request)
    assert checked == done
    assert done.answer["changed"] and done.answer["reason"] == "options of the nvidia module: NVreg_EnableMSI=0"
    assert done.answer["after"] == [
        "vm.swappiness = 1",
        "madvise",
        "governor performance on 2 CPUs",
        "nvidia module: NVreg_EnableMSI=0",
    ]
    assert hands("tuning", request).answer["changed"] is False


def test_every_part_is_tried_and_every_failure_told(hands: Hands, host: Path) -> None:
    pools = {"pools": [{"node": 7, "size_kib": 2048, "pages": 1}]}
    values = {"values": {"vm.nonesuch": 1}}
    ran = hands("tuning", {"sysctl": values, "hugepages": pools, "governor": {"governor": "performance"}})
    assert ran.status == 1
    assert "vm.nonesuch" in ran.answer["error"] and "NUMA node 7" in ran.answer["error"]
    assert (host / GOVERNORS[0]).read_text().strip() == "performance"


@pytest.mark.parametrize(
    "part", [{"nonesuch": {}}, {"swap": {"on": True}}, {"thp": {"mode": "x"}}, {"governor": {}}]
)
def test_requests_are_checked(hands: Hands, host: Path, part: dict[str, Any]) -> None:
    assert hands("tuning", part).status == 2


def test_a_host_without_frequencies_has_no_governor(hands: Hands, root: Path) -> None:
    ran = hands("tuning", {"governor": {"governor": "performance"}})
    assert (ran.status, ran.answer["changed"], ran.answer["after"]) == (0, False, [])


def test_a_governor_that_does_not_take_is_told(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, text: str) -> None:
        raise OSError(22, "Invalid argument")

    (host / GOVERNORS[0]).with_name("scaling_available_governors").write_text("powersave schedutil\n")
    monkeypatch.setenv("QWENHOST_ROOT", str(host))
    monkeypatch.setattr(kernel, "write", refuse)
    told = r"cpu0/.*: cannot be set to performance: Invalid argument \(offered: powersave schedutil\); and 1 more"
    with pytest.raises(Refused, match=told):
        governor.run({"governor": "performance"})


@pytest.mark.parametrize("options", [{"EnableMSI": 1}, {"NVreg_X": "a b"}, {"NVreg_X": "1\ninstall nvidia sh"}])
def test_options_are_one_word_each(hands: Hands, host: Path, options: dict[str, Any]) -> None:
    assert hands("tuning", {"module-options": {"options": options}}).status == 2
    assert not (host / OPTIONS).exists()


def test_options_that_nobody_wants_go(hands: Hands, host: Path) -> None:
    hands("tuning", {"module-options": {"options": {"NVreg_EnableMSI": 1}}})
    text = (host / OPTIONS).read_text()
    assert text.endswith("options nvidia NVreg_EnableMSI=1\n") and BOOT in text
    gone = hands("tuning", {"module-options": {"options": {}}})
    assert gone.answer["changed"] and not (host / OPTIONS).exists()


def test_rollback_brings_governors_and_options_back(hands: Hands, host: Path) -> None:
    (host / GOVERNORS[0]).write_text("schedutil\n")
    hands("begin", {**RUN, "sysctl": []})
    options = {"options": {"NVreg_EnableMSI": 0}}
    hands("tuning", {"governor": {"governor": "performance"}, "module-options": options})
    hands("end", RUN)
    undone = hands("rollback", {**RUN, "to": ""})
    assert "governor powersave on 1 CPUs" in undone.answer["after"], undone.answer
    assert [(host / path).read_text().strip() for path in GOVERNORS] == ["schedutil", "powersave"]
    assert not (host / OPTIONS).exists()


Calls = list[tuple[str, ...]]


@pytest.fixture
def calls(host: Path, monkeypatch: pytest.MonkeyPatch) -> Calls:
    """What is run on a host with swap on two devices; swapoff empties the kernel's list."""
    made: Calls = []
    (host / "proc/swaps").write_text(SWAPS)
    (host / "proc/meminfo").write_text("MemAvailable: 900 kB\nSwapTotal: 2000 kB\nSwapFree: 1500 kB\n")

    def call(*argv: str, seconds: float = 60) -> str:
        made.append(argv)
        if argv[0] == "swapoff":
            (host / "proc/swaps").write_text(SWAPS.splitlines()[0] + "\n")
        return ""

    monkeypatch.setenv("QWENHOST_ROOT", str(host))
    monkeypatch.setattr(command, "call", call)
    return made


def test_swap_is_switched_off_and_on_as_it_was(calls: Calls) -> None:
    before = swap.current()
    assert swap.run({"on": False}, check=True)["changed"]
    assert calls == []
    assert swap.run({"on": False})["before"] == ["swap on /dev/sda2", "swap on /swap file"]
    assert swap.run({"on": False})["changed"] is False
    swap.restore(before)
    assert calls == [("swapoff", "-a"), ("swapon", "/dev/sda2"), ("swapon", "--priority", "5", "/swap file")]


def test_swap_stays_where_memory_has_no_room_for_it(calls: Calls, host: Path) -> None:
    (host / "proc/meminfo").write_text("MemAvailable: 4096 kB\nSwapTotal: 9216 kB\nSwapFree: 1024 kB\n")
    with pytest.raises(Refused, match="8 MiB are swapped out, and 4 MiB of memory are available"):
        swap.run({"on": False})
    assert calls == []


def test_shared_memory_is_resized_and_read_back(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = iter([1 << 20, 2 << 20, 2 << 20, 1 << 20, 1 << 20])
    monkeypatch.setattr(shm, "size", lambda: next(sizes))
    assert shm.run({"size_bytes": 2 << 20})["after"] == ["/dev/shm: 2 MiB"]
    assert shm.run({"size_bytes": 2 << 20})["changed"] is False
    assert [argv[:3] for argv in calls] == [("mount", "-o", "remount,size=2097152")]
    with pytest.raises(Refused, match="/dev/shm: 3145728 bytes wanted, 1048576 there"):
        shm.run({"size_bytes": 3 << 20})


def test_shared_memory_that_is_not_mounted_is_told(hands: Hands, host: Path) -> None:
    assert hands("tuning", {"shm": {"size_bytes": 1}}).answer == {"error": "tuning: /dev/shm is not mounted"}


LARGE = "sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages"


def test_large_pages_may_be_short_until_the_boot_that_reserves_them(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (host / LARGE).parent.mkdir(parents=True)
    (host / LARGE).write_text("0\n")
    (host / "proc/cmdline").write_text("quiet")
    monkeypatch.setenv("QWENHOST_ROOT", str(host))
    monkeypatch.setattr(kernel, "write", lambda path, text: Path(path).write_text("1\n"))
    wanted = {"pools": [{"node": -1, "size_kib": 1 << 20, "pages": 4}], "reserved_at_boot": True}
    short = "host: 4 pages of 1048576 KiB wanted, 1 there: memory is full or fragmented"
    assert hugepages.run(wanted)["reason"].startswith(short)
    with pytest.raises(Refused, match=short):
        hugepages.run({**wanted, "reserved_at_boot": False})
    (host / "proc/cmdline").write_text("quiet hugepagesz=1G hugepages=4")
    with pytest.raises(Refused, match=short):
        hugepages.run(wanted)

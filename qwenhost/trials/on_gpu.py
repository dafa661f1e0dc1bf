"""What runs inside PyTorch: one trial by name, its figures as JSON on standard output.

Rates are in GB/s (1e9 bytes), best of some repetitions. Buffers take at most 1 GiB per GPU.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from typing import Any, Callable

HOST_BYTES = 256 << 20
DEVICE_BYTES = 1 << 30
PEER_BYTES = 256 << 20
REPEATS = 8
WARM_UP = 3
PATTERN_SEED = 20080701
PCI_DEVICES = "/sys/bus/pci/devices/"


def main(trial: str) -> None:
    """Print the result of a trial; an exception ends the process with its message on standard error."""
    import torch

    if not torch.cuda.is_available():
        sys.exit("PyTorch {} finds no usable GPU".format(torch.__version__))
    result = TRIALS[trial](torch)
    json.dump({"trial": trial, "torch": torch.__version__, **result}, sys.stdout)


def host_copy(torch: Any) -> dict[str, Any]:
    """Copy pinned host memory to each GPU and back; read the link's speed while it works."""
    return {"gpus": [host_copy_of(torch, gpu) for gpu in range(torch.cuda.device_count())]}


def host_copy_of(torch: Any, gpu: int) -> dict[str, Any]:
    """Return one GPU's rates."""
    on_host = torch.empty(HOST_BYTES, dtype=torch.uint8, pin_memory=True)
    on_gpu = torch.empty(HOST_BYTES, dtype=torch.uint8, device=gpu)
    to_gpu = rate(torch, gpu, HOST_BYTES, lambda: on_gpu.copy_(on_host, non_blocking=True))
    on_gpu.copy_(on_host, non_blocking=True)
    link = link_now(bus_id(torch, gpu))
    to_host = rate(torch, gpu, HOST_BYTES, lambda: on_host.copy_(on_gpu, non_blocking=True))
    return {**named(torch, gpu), "to_gpu_gb_per_s": to_gpu, "to_host_gb_per_s": to_host, **link}


def device_memory(torch: Any) -> dict[str, Any]:
    """Copy within each GPU's memory; bytes read and bytes written both count."""
    return {"gpus": [device_memory_of(torch, gpu) for gpu in range(torch.cuda.device_count())]}


def device_memory_of(torch: Any, gpu: int) -> dict[str, Any]:
    """Return one GPU's rate, and whether the copy is right."""
    source = torch.randint(0, 256, (DEVICE_BYTES,), dtype=torch.uint8, device=gpu)
    target = torch.empty_like(source)
    moved = rate(torch, gpu, 2 * DEVICE_BYTES, lambda: target.copy_(source))
    return {**named(torch, gpu), "gb_per_s": moved, "intact": bool(torch.equal(source, target))}


def peer_copy(torch: Any) -> dict[str, Any]:
    """Copy a random pattern between all GPUs that reach each other directly, and read it back by another way."""
    count = torch.cuda.device_count()
    pairs = [(one, two) for one in range(count) for two in range(count) if one != two]
    return {"gpus": [named(torch, gpu) for gpu in range(count)], "pairs": [pair(torch, *ends) for ends in pairs]}


def pair(torch: Any, one: int, two: int) -> dict[str, Any]:
    """Return what came of one ordered pair."""
    row = {"from": one, "to": two, "direct": bool(torch.cuda.can_device_access_peer(two, one))}
    if not row["direct"]:
        return row
    random = torch.Generator().manual_seed(PATTERN_SEED + 64 * one + two)
    pattern = torch.randint(0, 256, (PEER_BYTES,), dtype=torch.uint8, generator=random)
    source, target = pattern.to(one), torch.zeros(PEER_BYTES, dtype=torch.uint8, device=two)
    moved = rate(torch, two, PEER_BYTES, lambda: target.copy_(source, non_blocking=True))
    torch.cuda.synchronize(one)
    return {**row, "gb_per_s": moved, "intact": bool(torch.equal(target.cpu(), pattern))}


def all_reduce(torch: Any) -> dict[str, Any]:
    """Sum a buffer over all GPUs through NCCL, one process each; the bus rate is that of nccl-tests."""
    count = torch.cuda.device_count()
    if count < 2:
        return {"gpus": count}
    with tempfile.TemporaryDirectory() as folder:
        answers = [os.path.join(folder, "rank{}".format(rank)) for rank in range(count)]
        children = [fork(reduce_rank, rank, count, folder, answers[rank]) for rank in range(count)]
        codes = [os.waitpid(child, 0)[1] for child in children]
        if any(codes):
            sys.exit("all-reduce: {} of {} processes failed".format(sum(map(bool, codes)), count))
        rows = []
        for answer in answers:
            with open(answer, encoding="utf-8") as file:
                rows.append(json.load(file))
    slowest = max(row["seconds"] for row in rows)
    bus = 2 * (count - 1) / count * DEVICE_BYTES / slowest / 1e9
    return {"gpus": count, "bus_gb_per_s": round(bus, 2), "right": all(row["right"] for row in rows)}


def reduce_rank(rank: int, count: int, folder: str, answer: str) -> None:
    """Be one process of the all-reduce."""
    import torch
    import torch.distributed as group

    torch.cuda.set_device(rank)
    meeting = "file://" + os.path.join(folder, "meeting")
    group.init_process_group("nccl", init_method=meeting, rank=rank, world_size=count)
    values = torch.full((DEVICE_BYTES // 4,), float(rank + 1), device=rank)
    group.all_reduce(values)
    right = bool((values == count * (count + 1) / 2).all())
    values.zero_()
    seconds = min(timed(torch, rank, lambda: group.all_reduce(values)) for _ in range(WARM_UP + REPEATS))
    with open(answer, "w", encoding="utf-8") as file:
        json.dump({"seconds": seconds, "right": right}, file)
    group.destroy_process_group()


def fork(act: Callable[..., None], *arguments: Any) -> int:
    """Run `act` in a process of its own (CUDA is not started before); return its id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        act(*arguments)
        code = 0
    except Exception as error:
        sys.stderr.write("{!r}\n".format(error))
    finally:
        sys.stderr.flush()
        os._exit(code)


def rate(torch: Any, gpu: int, moved_bytes: int, act: Callable[[], Any]) -> float:
    """Return the best rate of some repetitions in GB/s."""
    for _ in range(WARM_UP):
        act()
    return round(moved_bytes / min(timed(torch, gpu, act) for _ in range(REPEATS)) / 1e9, 2)


def timed(torch: Any, gpu: int, act: Callable[[], Any]) -> float:
    """Return the seconds that an act takes until the GPU has done it."""
    torch.cuda.synchronize(gpu)
    started = time.perf_counter()
    act()
    torch.cuda.synchronize(gpu)
    return time.perf_counter() - started


def named(torch: Any, gpu: int) -> dict[str, Any]:
    """Return the GPU's index in PCI order and its address on the bus."""
    return {"gpu": gpu, "bus_id": bus_id(torch, gpu)}


def bus_id(torch: Any, gpu: int) -> str:
    """Return the address as sysfs writes it."""
    place = torch.cuda.get_device_properties(gpu)
    return "{:04x}:{:02x}:{:02x}.0".format(place.pci_domain_id, place.pci_bus_id, place.pci_device_id)


def link_now(address: str) -> dict[str, Any]:
    """Return generation and width of a PCIe link as the kernel tells them now; None where it does not."""
    return {
        "link_speed_gt_per_s": number(PCI_DEVICES + address + "/current_link_speed"),
        "link_width": number(PCI_DEVICES + address + "/current_link_width"),
    }


def number(path: str) -> float | None:
    """Return the number that a file starts with."""
    try:
        with open(path, encoding="utf-8") as file:
            return float(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return None


TRIALS = {
    "host-copy": host_copy,
    "device-memory": device_memory,
    "peer-copy": peer_copy,
    "all-reduce": all_reduce,
}

if __name__ == "__main__":
    main(sys.argv[1])

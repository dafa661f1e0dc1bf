"""Does the service give back what a burst took of the GPUs?"""

from __future__ import annotations

from qwenhost.expectations.smoke_tables import gpu_memory_growth_mib
from qwenhost.records.finding import Verdict, by_hand
from qwenhost.workflows.smoke import capacity
from qwenhost.workflows.smoke.service import Seen, Service, judged, skipped

RESTART = by_hand("Restart the service, watch `nvidia-smi` under load, and try another version of vLLM.")


def gpu_memory(service: Service) -> Seen:
    """Memory that a burst leaves taken is missing until the restart, and in the end a request fails by it.

    The burst is the second one: the first makes vLLM's allocator take what it then keeps.
    """
    if service.gpu_mib is None:
        return skipped("not looked at: a URL does not tell the GPUs' memory, smoke -i INVENTORY does")
    before = service.gpu_mib()
    answered = capacity.burst(service)
    if answered.verdict is not Verdict.PASS:
        return Seen(Verdict.UNKNOWN, f"the burst before it: {answered.observed}")
    capacity.at_rest(service)
    after, most = service.gpu_mib(), gpu_memory_growth_mib()
    grown = {gpu: now - before.get(gpu, 0) for gpu, now in after.items()}
    told = [f"{gpu} {before.get(gpu, 0)} to {now} MiB" for gpu, now in after.items() if grown[gpu] > most]
    observed = ", ".join(told) or ", ".join(f"{gpu} {more:+d} MiB" for gpu, more in grown.items())
    return judged(not told, observed, f"at most {most} MiB more than before", remedy=RESTART)

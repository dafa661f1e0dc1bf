"""Starts of vLLM that fail, each kind in the words of several versions: one check tells it, the others do not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from qwenhost.checks.engine import examine
from qwenhost.expectations.skus import skus
from qwenhost.records.bundle import Bundle, Capture
from qwenhost.records.desired import Expectations, Serving, VllmInstance
from qwenhost.records.finding import Finding, Verdict

NOTHING = Expectations()

CHAT = VllmInstance("chat", 8001, gpus=(0,))
SERVED = replace(NOTHING, serving=Serving("0.32.0", "vllm", "qwen3.5-9b", "/models/q", (CHAT,), origin="test"))

ENDED = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"

READY = "INFO:     Application startup complete."

UNITS = (
    "Id=basic.target\nLoadState=loaded\nActiveState=active\nSubState=active\nResult=\nNRestarts=\n\n"
    "Id=vllm@chat.service\nLoadState=loaded\nActiveState={}\nSubState=x\nResult={}\nNRestarts={}\n"
)


def log(*lines: str) -> Capture:
    return Capture("vllm-log", "ok", "".join(f"{line}\n" for line in lines))


def found(*captures: Capture, want: Expectations = NOTHING) -> tuple[Finding, ...]:
    findings = examine(Bundle("host", captures), want)
    return tuple(finding for finding in findings if finding.check.startswith("vllm."))


def loud(*captures: Capture, want: Expectations = NOTHING) -> dict[str, str]:
    """Return check -> verdict of what warns, fails or was not seen, and is no consequence."""
    alarms = (Verdict.UNKNOWN, Verdict.WARN, Verdict.FAIL)
    findings = found(*captures, want=want)
    return {f.check: f.verdict.value for f in findings if f.verdict in alarms and not f.cause}


def the(check: str, *captures: Capture, want: Expectations = NOTHING) -> Finding:
    (finding,) = (finding for finding in found(*captures, want=want) if finding.check == check)
    return finding


TABLE = yaml.safe_load((Path(__file__).parent / "vllm_starts.yaml").read_text(encoding="utf-8"))

CAUSES = [(check, *row.values()) for check, rows in TABLE.items() for row in rows]


@pytest.mark.parametrize(("check", "line", "observed", "expected"), CAUSES, ids=lambda value: str(value)[:40])
@pytest.mark.parametrize("process", ["", "(EngineCore_DP0 pid=7) ERROR 12-01 08:00:09 [core.py:1193] "])
def test_one_check_tells_it(check: str, line: str, observed: str, expected: str, process: str) -> None:
    kept = log("INFO 12-01 08:00:01 [api_server.py:1] vLLM API server version 0.32.0", process + line, ENDED)
    assert loud(kept) == {check: "fail"}
    finding = the(check, kept)
    assert finding.observed.startswith(observed)
    assert finding.expected.startswith(expected)
    assert finding.evidence in line and finding.evidence
    assert finding.remedy.kind == "hand"


def test_the_wrapper_is_not_the_cause() -> None:
    kept = log(
        "ValueError: invalid literal for int() with base 10: 'MIG-0a1b2c3d-0001-5000-8000-000000000001'",
        "pydantic_core.ValidationError: 1 validation error for ModelConfig",
        "  Value error, Model architectures ['Qwen3_5ForCausalLM'] failed to be inspected. Please check the logs",
    )
    assert loud(kept) == {"vllm.mig-device": "fail"}
    alone = log("ValueError: Model architectures ['Qwen3_5ForCausalLM'] failed to be inspected. Please check")
    assert loud(alone) == {"vllm.architecture": "fail"}


ELSEWHERE = [
    ("RuntimeError: The NVIDIA driver on your system is too old (found version 12020).", "driver.cuda-match"),
    ("RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized", "fabric."),
    ("RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)", "nccl."),
    ("torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:94, remote process exited", "nccl."),
    ("torch.AcceleratorError: CUDA error: an illegal memory access was encountered", "gpu.xid"),
    ("Fatal Python error: Bus error", "host.shm"),
    ("RuntimeError: Failed to infer device type", "driver.present"),
    ("OSError: [Errno 24] Too many open files", "host.nofile"),
]


@pytest.mark.parametrize(("line", "check"), ELSEWHERE)
def test_what_others_tell_is_no_fault_of_vllm(line: str, check: str) -> None:
    kept = log(f"(Worker_TP0 pid=4) ERROR 12-01 08:00:09 [worker.py:1] {line}", ENDED)
    assert loud(kept) == {}
    finding = the("vllm.start", kept)
    assert finding.verdict is Verdict.NOTE
    assert finding.expected.startswith(f"told by {check}")


def test_an_unknown_cause_is_shown_as_it_was_said() -> None:
    kept = log("(EngineCore pid=1) IndexError: list index out of range", f"(APIServer pid=2) {ENDED}")
    assert loud(kept) == {"vllm.start": "fail"}
    assert the("vllm.start", kept).evidence == "IndexError: list index out of range"
    assert "above" in the("vllm.start", log(ENDED)).evidence


def test_an_error_that_may_not_be_the_end() -> None:
    cut = log(
        "(Worker pid=1) ERROR 12-01 08:00:09 [w.py:1] triton.runtime.errors.OutOfResources: shared memory, x"
    )
    assert loud(cut) == {"vllm.start": "warn"}
    assert the("vllm.start", cut).evidence.endswith("OutOfResources: shared memory, x")


def test_a_hang_is_a_symptom() -> None:
    kept = log(
        "(EngineCore pid=1) INFO 12-01 08:00:09 [shm.py:1] No available shared memory broadcast block found"
    )
    assert loud(kept) == {}
    assert the("vllm.start", kept).verdict is Verdict.NOTE
    slow = log(
        "INFO 12-01 08:00:09 [shm.py:1] No available shared memory broadcast block found", "INFO:     x", READY
    )
    assert the("vllm.start", slow).verdict is Verdict.PASS


def test_a_container_is_no_unit() -> None:
    kept = log("qwen-1  | ValueError: No available memory for the cache blocks.")
    assert the("vllm.kv-cache-fit", kept).subject == "container qwen-1"


def test_notes_of_a_start_that_went_on() -> None:
    marlin = log(
        "WARNING 12-01 08:00:09 [m.py:1] Your GPU does not have native support for FP8 computation but", READY
    )
    assert {f.verdict for f in found(marlin) if f.check == "vllm.fp8-on-sm80"} == {Verdict.PASS, Verdict.NOTE}
    cache = log("INFO 12-01 08:00:09 [c.py:1] Using fp8 data type to store kv cache. It reduces the memory", READY)
    ampere, hopper = (replace(NOTHING, sku=skus()[name]) for name in ("a100-sxm4-80gb", "h100-sxm5"))
    assert Verdict.NOTE in {f.verdict for f in found(cache, want=ampere) if f.check == "vllm.fp8-on-sm80"}
    assert Verdict.NOTE not in {f.verdict for f in found(cache, want=hopper) if f.check == "vllm.fp8-on-sm80"}
    beyond = log("WARNING 12-01 08:00:09 [c.py:1] User-specified max_model_len (9000) is greater than the derived"
                 " max_model_len (max_position_embeddings=8192 or x)", READY)  # fmt: skip
    assert loud(beyond) == {"vllm.context-length": "warn"}


def test_a_declared_fp8_cache_is_a_note_on_ampere_only() -> None:
    cache = replace(CHAT, args={"kv-cache-dtype": "fp8_e5m2"})
    serving = Serving("0.32.0", "vllm", "q", "/models/q", (cache,), origin="test")
    for sku, notes in (("a100-sxm4-80gb", 1), ("h100-sxm5", 0)):
        want = replace(NOTHING, serving=serving, sku=skus()[sku])
        told = [
            f for f in found(HEALTHY, want=want) if f.check == "vllm.fp8-on-sm80" and f.verdict is Verdict.NOTE
        ]
        assert len(told) == notes


def journal(*lines: str) -> Capture:
    text = "".join(f"Tue 2026-12-01 08:00:00 UTC lab-a vllm@chat.service[9]: {line}\n" for line in lines)
    return Capture("vllm-journal", "ok", text)


def units(state: str, result: str = "success", restarts: int = 0) -> Capture:
    return Capture("vllm-units", "ok", UNITS.format(state, result, restarts))


HEALTHY = Capture("vllm-health:8001", "ok", '{"status": 200, "body": ""}')
REFUSED = Capture("vllm-health:8001", "failed", error="connection refused")
INSTALLED = Capture(
    "vllm-environments",
    "ok",
    '{"/proc/version": "x", "/opt/qwenhost/vllm/e/.complete": "vllm==0.32.0", "/opt/qwenhost/vllm/current@": "e"}',
)
CONFIG = Capture("vllm-config", "ok", '{"/proc/version": "x", "/etc/qwenhost/vllm/chat.yaml": "{}"}')
FILES = Capture("model-files:/models/q", "ok", "96 1764720000.1234567890 w.safetensors\n")
LOOK = {
    "schema": 1,
    "path": "/models/q",
    "at": "2026-12-01T08:00:00Z",
    "files": {"w.safetensors": {"bytes": 96, "mtime_ns": 1764720000123456789, "sha256": "0"}},
}
VERIFIED = Capture(
    "model-records",
    "ok",
    json.dumps({"/proc/version": "x", "/var/lib/qwenhost/models/models-q.json": json.dumps(LOOK)}),
)
NO_PROXY = Capture("vllm-proxy", "ok", '{"/proc/version": "x"}')
PRIVATE = Capture("vllm-files", "ok", "600 root api_key\n644 root chat.yaml\n600 root chat.env\n")
IN_PLACE = (INSTALLED, CONFIG, FILES, VERIFIED, PRIVATE, NO_PROXY)
"""What the role puts on a host before anything starts."""


def test_a_service_that_answers_needs_no_log() -> None:
    assert loud(*IN_PLACE, units("active"), HEALTHY, want=SERVED) == {}
    assert the("vllm.kv-cache-fit", units("active"), HEALTHY, want=SERVED).verdict is Verdict.PASS


def test_one_that_is_down_is_a_consequence_of_the_cause() -> None:
    failed = journal("ValueError: max_num_seqs (512) exceeds available Mamba cache blocks (130).", ENDED)
    down = (*IN_PLACE, failed, units("failed", "exit-code", 4), REFUSED)
    assert loud(*down, want=SERVED) == {"vllm.mamba-blocks": "fail"}
    finding = the("vllm.mamba-blocks", *down, want=SERVED)
    assert (finding.subject, finding.remedy.kind, finding.remedy.role) == ("vllm@chat", "role", "vllm_service")
    assert the("vllm.service", *down, want=SERVED).cause == "vllm.mamba-blocks"


def test_before_the_first_install_there_is_nothing_to_tell() -> None:
    bare = UNITS.partition("\n\n")[0] + "\n"
    before = (Capture("vllm-units", "ok", bare), Capture("vllm-journal", "ok", ""), REFUSED)
    alarms = {f.check: f.verdict for f in found(*before, want=SERVED) if f.verdict is Verdict.UNKNOWN}
    left_out = {"vllm.installed", "vllm.config", "vllm.model-files", "vllm.proxy", "vllm.private-files"}
    assert set(alarms) == left_out
    assert the("vllm.start", *before, want=SERVED).observed == "not started yet"


def test_an_instance_of_yesterday_is_history() -> None:
    old = journal("ValueError: No available memory for the cache blocks.")
    gone = Capture("vllm-units", "ok", UNITS.partition("\n\n")[0] + "\n")
    assert loud(old, gone) == {}
    assert loud(old) == {"vllm.kv-cache-fit": "fail"}


def test_unseen_is_unknown() -> None:
    """Declared, and neither systemd nor log nor port was seen."""
    assert the("vllm.kv-cache-fit", want=SERVED).verdict is Verdict.UNKNOWN
    assert the("vllm.kv-cache-fit").verdict is Verdict.SKIP


@pytest.mark.parametrize(("version", "verdict"), [("0.20.0", "warn"), ("0.32.0", None)])
def test_a_slice_needs_a_version_that_takes_uuids(version: str, verdict: str | None) -> None:
    instance = VllmInstance("chat", 8001, mig="0:1")
    want = replace(NOTHING, serving=Serving(version, "vllm", "q", "/models/q", (instance,), origin="test"))
    assert loud(units("inactive"), REFUSED, want=want).get("vllm.mig-device") == verdict
    assert loud(units("active"), HEALTHY, want=want).get("vllm.mig-device") is None


@pytest.mark.parametrize(
    ("line", "check", "verdict"),
    [
        (
            "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized",
            "fabric.running",
            "fail",
        ),
        ("RuntimeError: Failed to infer device type, please set the variable", "driver.present", "fail"),
        (
            "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory",
            "driver.present",
            "fail",
        ),
        ("pynvml.NVMLError_LibRmVersionMismatch: RM has detected a mismatch", "driver.versions-agree", "fail"),
        ("Fatal Python error: Bus error", "host.shm", "fail"),
        ("OSError: [Errno 28] No space left on device: '/psm_0a1b2c'", "host.shm", "fail"),
        ("RuntimeError: [enforce fail] DefaultCPUAllocator: can't allocate memory: you tried", "host.oom", "fail"),
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", "memory.uncorrected-ecc", "fail"),
        ("RuntimeError: CUDA error: an illegal memory access was encountered", "gpu.xid", "warn"),
        ("RuntimeError: CUDA error: invalid device ordinal", "vllm.start", "fail"),
    ],
)
def test_a_log_alone_is_enough_for_the_check_that_it_blames(line: str, check: str, verdict: str) -> None:
    output = Capture("cuda-errors", "ok", line)
    findings = examine(Bundle("host", (log("vLLM API server version 0.32.0", line, ENDED), output)), NOTHING)
    loud = {f.check: f.verdict.value for f in findings if f.verdict in (Verdict.WARN, Verdict.FAIL)}
    assert loud == {check: verdict}


def test_a_driver_that_answers_is_not_blamed_by_a_service_without_gpus() -> None:
    table = Capture(
        "nvidia-smi", "ok", "| NVIDIA-SMI 580.95.05   Driver Version: 580.95.05   CUDA Version: 13.0 |"
    )
    kept = log("vLLM API server version 0.32.0", "RuntimeError: No CUDA GPUs are available", ENDED)
    findings = examine(Bundle("host", (kept, table)), NOTHING)
    assert {f.check for f in findings if f.verdict is Verdict.FAIL} == {"vllm.start"}

"""Pages of metrics, as the probe brings them and as somebody kept them."""

from __future__ import annotations

import json

import pytest

from qwenhost.facts.vllm_metrics import METRICS, metrics_of_port, metrics_sources
from qwenhost.records.bundle import Capture
from qwenhost.records.errors import Unparsable

NEW = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="q"} 3.0
vllm:num_requests_running{engine="1",model_name="q"} 1.0
vllm:num_requests_waiting{engine="0",model_name="q"} 0.0
vllm:num_preemptions_total{engine="0",model_name="q"} 2.0
vllm:request_success_total{engine="0",finished_reason="stop",model_name="q"} 40.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="q"} 2.0
vllm:prefix_cache_queries_total{engine="0",model_name="q"} 1.2e+06
vllm:prefix_cache_hits_total{engine="0",model_name="q"} 300000.0
vllm:cache_config_info{block_size="528",engine="0",kv_cache_max_concurrency="15.058"} 1.0
"""

OLD = """\
# HELP vllm:num_requests_running Number of requests currently running on GPU.
vllm:num_requests_running{model_name="q"} 5.0
vllm:num_requests_waiting{model_name="q"} 7.0
vllm:gpu_prefix_cache_queries_total{model_name="q"} 90.0
vllm:gpu_prefix_cache_hits_total{model_name="q"} 0.0
"""


def test_a_page_of_the_probe() -> None:
    text = json.dumps({"status": 200, "body": NEW})
    page = metrics_of_port(Capture("vllm-metrics:8001", "ok", text))[8001]
    assert (page.running, page.waiting, page.preemptions, page.finished) == (4, 0, 2, 42)
    assert (page.prompts_asked, page.prompts_hit) == (1200000, 300000)
    assert (page.block_size, page.concurrency) == (528, 15.058)


def test_a_kept_page_of_an_older_version() -> None:
    assert METRICS.recognises(OLD)
    page = metrics_of_port(Capture("vllm-metrics", "ok", OLD))[0]
    assert (page.running, page.waiting, page.preemptions, page.finished) == (5, 7, None, None)
    assert (page.prompts_asked, page.prompts_hit, page.block_size, page.concurrency) == (90, 0, None, None)


@pytest.mark.parametrize("answer", [{"status": 404, "body": "no"}, {"status": 200, "body": "python_info 1.0\n"}])
def test_no_page(answer: dict[str, object]) -> None:
    with pytest.raises(Unparsable):
        metrics_of_port(Capture("vllm-metrics:8001", "ok", json.dumps(answer)))


def test_asked_on_loopback_only() -> None:
    (source,) = metrics_sources([8001])
    assert (source.kind, source.url) == ("http", "http://127.0.0.1:8001/metrics")

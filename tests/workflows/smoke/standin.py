"""A small server that answers as vLLM 0.32 does, refusals among it, keeps the same counts, and can misbehave.

A fault is a name in `faults`; each place where the server would do the right thing asks for its own.
"""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from qwenhost.lab.tiny_model import ANSWERS

KEY, MODEL = "sesame", "tiny"
BLOCK, BLOCKS, CONTEXT, KV_TOKENS = 64, 512, 256, 10_000
THOUGHT = "It is known by heart."
Answer = tuple[int, dict[str, Any] | str]


def problem(status: int, message: str) -> Answer:
    return status, {"error": {"message": message, "code": status}}


class VllmStandIn:
    """The state of one service: its faults, its counts, the blocks in its prefix cache."""

    def __init__(self, *faults: str) -> None:
        self.faults = set(faults)
        self.asked: list[dict[str, Any]] = []
        self.broken = False
        self._lock = threading.Lock()
        self._blocks: set[tuple[int, ...]] = set()
        self._queries = self._hits = self._running = 0

    def answer(self, method: str, path: str, headers: dict[str, str], body: str) -> Answer:
        """Route a request as vLLM does: the key is asked for before the path."""
        if path == "/health":
            return (503 if self.broken or "unhealthy" in self.faults else 200), ""
        if path == "/metrics":
            return 200, self.metrics()
        if path in ("/is_sleeping", "/server_info") and "dev-mode" in self.faults:
            return 200, {}
        if path.startswith("/v1") and not self._known(headers.get("authorization", "")):
            return 401, {"error": "Unauthorized"}
        if path == "/v1/models":
            return 200, self._models()
        if path in ("/v1/chat/completions", "/v1/completions"):
            return self._post(path, body) if method == "POST" else (405, {"detail": "Method Not Allowed"})
        return (
            (200, "welcome")
            if "catch-all" in self.faults and path.startswith("/v1")
            else (404, {"detail": "Not Found"})
        )

    def metrics(self) -> str:
        held = 0.25 if "leaking" in self.faults and self.asked else 0.0
        counts = {
            "num_requests_running": 1 if "stuck" in self.faults and self.asked else self._running,
            "num_requests_waiting": 0,
            "kv_cache_usage_perc": held,
            "prefix_cache_queries_total": self._queries,
            "prefix_cache_hits_total": self._hits,
        }
        tokens = {"small-pool": KV_TOKENS * 9 // 10, "large-pool": KV_TOKENS * 11 // 10}
        size = next((tokens[fault] for fault in self.faults & tokens.keys()), KV_TOKENS)
        labels = {
            "block_size": BLOCK,
            "num_gpu_blocks": BLOCKS,
            "enable_prefix_caching": "prefix-off" not in self.faults,
            "kv_cache_size_tokens": "None" if "old" in self.faults else size,
        }
        shown = ",".join(f'{name}="{value}"' for name, value in labels.items())
        lines = [f'vllm:{name}{{engine="0"}} {value}' for name, value in counts.items()]
        info = [] if "no-cache-info" in self.faults else [f"vllm:cache_config_info{{{shown}}} 1.0"]
        return "python_info 1.0\n" if "no-metrics" in self.faults else "\n".join([*lines, *info]) + "\n"

    def _known(self, header: str) -> bool:
        if "any-key" in self.faults and header:
            return True
        return "open" in self.faults or header == f"Bearer {KEY}"

    def _models(self) -> dict[str, Any]:
        context = CONTEXT // 2 if "short-context" in self.faults else CONTEXT
        return {"data": [{"id": name, "max_model_len": context} for name in self._names]}

    @property
    def _names(self) -> list[str]:
        names: dict[str, list[str]] = {"unnamed": [], "renamed": ["other"]}
        return next((names[fault] for fault in self.faults & names.keys()), [MODEL])

    def _post(self, path: str, body: str) -> Answer:
        if "failing" in self.faults:
            return problem(500, "EngineCore encountered an issue")
        try:
            request = json.loads(body)
        except ValueError:
            return self._refuse("JSON decode error")
        if request.get("model") not in self._names:
            return problem(404, "The model does not exist")
        with self._lock:
            self.asked.append(request)
        return self._chat(request) if path.endswith("chat/completions") else self._complete(request)

    def _refuse(self, message: str) -> Answer:
        if "dies-of-bad-input" in self.faults:
            self.broken = True
        return problem(500 if "crashes-on-bad-input" in self.faults else 400, message)

    def _complete(self, request: dict[str, Any]) -> Answer:
        prompt, wanted = request["prompt"], request["max_tokens"]
        if len(prompt) + wanted > CONTEXT and "takes-any-length" not in self.faults:
            return problem(500 if "dies-of-length" in self.faults else 400, "maximum context length is 256 tokens")
        if "refuses-long" in self.faults and len(prompt) > CONTEXT // 2:
            return problem(400, "prompt too long")
        if wanted > 1 and "overloaded" in self.faults and len(self.asked) % 4 == 0:
            return problem(503, "overloaded")
        self._look_up(prompt)
        written = 1 if "cuts-bursts" in self.faults else wanted
        usage = {"prompt_tokens": len(prompt), "completion_tokens": written}
        return 200, {"choices": [{"text": "x", "finish_reason": "length"}], "usage": usage}

    def _look_up(self, prompt: list[int]) -> None:
        """Find and keep whole blocks; the last token is always computed."""
        ends = range(BLOCK, len(prompt), BLOCK)
        with self._lock:
            self._queries += len(prompt)
            if not self.faults & {"cold-cache", "prefix-off"}:
                self._hits += BLOCK * sum(tuple(prompt[:end]) in self._blocks for end in ends)
            self._blocks.update(tuple(prompt[:end]) for end in ends)

    def _chat(self, request: dict[str, Any]) -> Answer:
        mistake = self._mistake(request)
        if mistake:
            return self._refuse(mistake)
        thinking = request["chat_template_kwargs"]["enable_thinking"] or "always-thinks" in self.faults
        text, reason, tokens = self._written(request)
        message: dict[str, Any] = {"role": "assistant", "content": text, "reasoning": None}
        if thinking and "no-parser" in self.faults:
            message["content"] = f"{THOUGHT}</think>{text}"
        elif thinking and "never-thinks" not in self.faults:
            message["reasoning"] = THOUGHT
        if request.get("tools"):
            self._call(request, message)
        usage = {"prompt_tokens": 8, "completion_tokens": tokens}
        if request.get("stream"):
            return 200, self._stream(text, reason, usage)
        return 200, {"choices": [{"message": message, "finish_reason": reason}], "usage": usage}

    def _mistake(self, request: dict[str, Any]) -> str:
        """Return what vLLM refuses, empty for nothing."""
        messages, tools = request.get("messages"), request.get("tools") or []
        schema = (request.get("response_format") or {}).get("json_schema", {}).get("schema", {})
        auto = request.get("tool_choice") == "auto" and "no-tools" in self.faults
        mistakes = {
            "messages": not messages or not isinstance(messages, list),
            "temperature must be non-negative": request["temperature"] < 0,
            "max_tokens must be at least 1": request["max_tokens"] < 1,
            "max_tokens cannot be greater than max_model_len": request["max_tokens"] > 10_000,
            "tools.0.function: Field required": any("function" not in tool for tool in tools),
            "schema: not an object": not isinstance(schema, dict),
            '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser': auto,
        }
        return next((message for message, wrong in mistakes.items() if wrong), "")

    def _written(self, request: dict[str, Any]) -> tuple[str, str, int]:
        """Return the text, why it ended, and its tokens, which are words here."""
        known = dict(ANSWERS) if "babbles" not in self.faults else {ANSWERS[0][0]: ANSWERS[0][1]}
        text = "" if "silent" in self.faults else known.get(request["messages"][0]["content"], "ready")
        if "wrong" in self.faults:
            text = "I cannot say."
        if request.get("response_format") and "no-grammar" not in self.faults:
            text = json.dumps(request["response_format"]["json_schema"]["schema"]["enum"][0])
        for word in () if "runs-on" in self.faults else request.get("stop") or ():
            text = text.split(word)[0]
        words = text.split(" ")
        if len(words) > request["max_tokens"] and "no-limit" not in self.faults:
            return " ".join(words[: request["max_tokens"]]), "length", request["max_tokens"]
        return text, "stop", len(words)

    def _call(self, request: dict[str, Any], message: dict[str, Any]) -> None:
        if "plain-calls" in self.faults or ("obeys-only" in self.faults and request["tool_choice"] == "auto"):
            message["content"] = "<tool_call>current_time</tool_call>"
            return
        arguments = "{" if "broken-calls" in self.faults else "{}"
        message["tool_calls"] = [{"function": {"name": "current_time", "arguments": arguments}}]

    def _stream(self, text: str, reason: str, usage: dict[str, int]) -> str:
        pieces = [text[start : start + 5] for start in range(0, len(text), 5)]
        chunks: list[dict[str, Any]] = [{"choices": [{"delta": {"role": "assistant", "content": ""}}]}]
        chunks += [{"choices": [{"delta": {"content": piece}, "finish_reason": None}]} for piece in pieces]
        chunks.append({"choices": [{"delta": {}, "finish_reason": reason}]})
        chunks.append({"choices": [], "usage": usage})
        dropped = {"no-role": 0, "no-finish": -2, "no-usage": -1}
        for fault in self.faults & dropped.keys():
            del chunks[dropped[fault]]
        if "shuffled-events" in self.faults:
            chunks[1], chunks[-2] = chunks[-2], chunks[1]
        if "shuffled-text" in self.faults:
            chunks[5], chunks[6] = chunks[6], chunks[5]
        ends = {"no-done": "", "garbled": "data: {\n\n"}
        end = next((ends[fault] for fault in self.faults & ends.keys()), "data: [DONE]\n\n")
        return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + end


@contextmanager
def serving(standin: VllmStandIn) -> Iterator[str]:
    """Serve on a free port of the loopback; yields the base URL."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._do("")

        def do_POST(self) -> None:
            self._do(self.rfile.read(int(self.headers.get("Content-Length", 0))).decode())

        def _do(self, body: str) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, content = standin.answer(self.command, self.path, headers, body)
            self.send_response(status)
            self.end_headers()
            self.wfile.write((content if isinstance(content, str) else json.dumps(content)).encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(http.server.ThreadingHTTPServer):
        request_queue_size = 64  # the default of 5 makes clients of a burst try again after a second

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()

"""How fast a replica could be, from a plan's two rates: memory bounds decoding, arithmetic bounds prompts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Roofline:
    """Estimates of one replica: tokens/s of one request alone, and prompt tokens/s."""

    decode_tokens_per_s: float
    prefill_tokens_per_s: float

    def output_tokens_per_s(self, concurrency: int, input_tokens: int, output_tokens: int) -> float:
        """Return the rate of all requests together.

        Each step of decoding reads the weights once for all of them; beside that, each output token costs its own
        arithmetic and its share of the prompt's.
        """
        reading = 1 / (concurrency * self.decode_tokens_per_s)
        computing = (1 + input_tokens / output_tokens) / self.prefill_tokens_per_s
        return 1 / (reading + computing)

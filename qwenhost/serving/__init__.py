"""How a model is served: whether it fits, and what vLLM is told."""

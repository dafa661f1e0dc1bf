"""Scripts that make the tiny stand-in model; they run under the Python of the vLLM environment."""

"""Simulated nvidia-smi: shows the state, and changes it through the simulated NVML as the real one does."""

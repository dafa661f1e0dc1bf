"""The use cases: the only place that joins I/O to logic."""

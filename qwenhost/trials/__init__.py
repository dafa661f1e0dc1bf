"""Trials: active tests that load the GPUs, run on a host only when somebody asks for them.

`main` runs on any Python 3.8 and hands each trial to a Python that has PyTorch; `on_gpu` is what runs there.
"""

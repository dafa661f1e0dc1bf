"""Frozen values that are passed between the stages; no behaviour beyond what they mean."""

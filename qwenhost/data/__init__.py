"""Figures with their sources: boards, software, profiles, models, error tables."""

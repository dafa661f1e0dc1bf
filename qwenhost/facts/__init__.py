"""Typed meaning of captures: one file per subject, with its sources, its parsers and its record."""

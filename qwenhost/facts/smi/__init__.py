"""Parsers of GPU facts, one file per form in which the driver's tools print them."""

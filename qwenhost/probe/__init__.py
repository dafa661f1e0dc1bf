"""Reads what it is asked to read on a host, and interprets nothing.

Standard library only, Python 3.8 or newer; nothing is written on the host.
"""

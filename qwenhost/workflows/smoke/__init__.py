"""Ask a served model questions and look at what comes back: does it really serve, and as planned?

A service can answer /health while every request fails, so only answers with the right content count.
"""

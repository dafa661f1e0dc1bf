"""The same settings on the same hosts by four ways."""

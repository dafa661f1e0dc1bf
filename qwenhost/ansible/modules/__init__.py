"""Documentation of the action plugins, where ansible-doc looks for it."""

"""The command line: one file per command, found by its name; a module exports `command` or `group`."""

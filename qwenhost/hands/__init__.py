"""Host-side acts that compare, change only what differs and read back; standard library, Python 3.8 or newer."""

"""A proxy command: joins standard input and output to a TCP connection (address and port are arguments)."""

from __future__ import annotations

import os
import socket
import sys
import threading

connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))


def send() -> None:
    """Pass on standard input."""
    while data := os.read(0, 65536):
        connection.sendall(data)


threading.Thread(target=send, daemon=True).start()
while data := connection.recv(65536):
    os.write(1, data)

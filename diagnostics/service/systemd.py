"""Tells systemd how the service fares (sd_notify(3)): a datagram to the socket that it names, nothing without one."""

from __future__ import annotations

import contextlib
import os
import socket


def tell_systemd(state: str) -> None:
    """Send `state`, as in `READY=1`; outside systemd this does nothing."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):  # an abstract socket
        address = "\0" + address[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.sendto(state.encode(), address)

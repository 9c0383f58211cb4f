"""What the name of a host says by itself; no resolver is asked. Pure."""

from __future__ import annotations

import ipaddress


def is_address(name: str) -> bool:
    """Whether it is an IP address in numbers, an IPv6 one without brackets."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens there."""
    if host == "localhost":
        return True
    return is_address(host) and ipaddress.ip_address(host).is_loopback

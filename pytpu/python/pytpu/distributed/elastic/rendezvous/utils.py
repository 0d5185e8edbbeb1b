"""Settings and addresses as texts."""

from __future__ import annotations

import ipaddress
import re
import socket

__all__ = ["address_for_others", "is_this_machine", "parse_rendezvous_endpoint", "settings_from_text"]


def settings_from_text(text: str) -> dict[str, str]:
    """Return the settings of a text `key=value,key=value`.

    Args:
        text: the text, which may be empty.

    Raises:
        ValueError: if a key or a value is missing.
    """
    settings = {}
    for pair in text.split(",") if text.strip() else ():
        key, _, value = (part.strip() for part in pair.partition("="))
        if not key:
            raise ValueError(
                "The rendezvous configuration string must be in format <key1>=<value1>,...,<keyN>=<valueN>."
            )
        if not value:
            raise ValueError(f"The rendezvous configuration option '{key}' must have a value specified.")
        settings[key] = value
    return settings


def parse_rendezvous_endpoint(endpoint: str | None, default_port: int) -> tuple[str, int]:
    """Return the host and the port of an address.

    Args:
        endpoint: `host`, `host:port` or `[IPv6 address]:port`. An empty text means `localhost`.
        default_port: the port if the text has none.

    Raises:
        ValueError: if the text is no address.
    """
    text = (endpoint or "").strip()
    if not text:
        return "localhost", default_port
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(default_port)
    elif not re.fullmatch("[0-9]{1,5}", port) or int(port) > 65535:
        raise ValueError(f"The port number of the rendezvous endpoint '{text}' must be an integer between 0 and 65536.")
    host = re.sub(r"^\[(.+)\]$", r"\1", host)
    if not re.fullmatch(r"[\w.:-]+", host):
        raise ValueError(
            f"The hostname of the rendezvous endpoint '{text}' must be a dot-separated list of labels, an IPv4 "
            "address, or an IPv6 address."
        )
    return host, int(port)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _addresses(host: str) -> set[str]:
    try:
        return {str(info[4][0]) for info in socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP)}
    except OSError:
        return set()


def is_this_machine(host: str) -> bool:
    """Return whether a name or an address is this machine's. Some names of a machine are not known to it.

    Args:
        host: the name or the address.
    """
    if _is_loopback(host) or host in (socket.gethostname(), socket.getfqdn()):
        return True
    addresses = _addresses(host)
    if addresses & _addresses(socket.gethostname()):
        return True
    return any(_is_local(address) for address in addresses)


def _is_local(address: str) -> bool:
    """Return whether an interface of this machine has the address: a socket can be bound to it."""
    if ipaddress.ip_address(address.partition("%")[0]).is_unspecified:
        return False
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


def address_for_others(endpoint: str) -> str:
    """Return an address of this machine that the other nodes can reach.

    It is the address that packets to the store have. The name of a machine often has another address, or none.
    """
    host, _ = parse_rendezvous_endpoint(endpoint, 0)
    if _is_loopback(host):
        return host
    for address in sorted(_addresses(host)):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                # For UDP this sends nothing: it only chooses the route.
                probe.connect((address, 9))
                return probe.getsockname()[0]
        except OSError:
            continue
    return socket.getfqdn()

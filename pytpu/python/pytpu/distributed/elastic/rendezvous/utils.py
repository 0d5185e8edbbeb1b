"""Settings and addresses as texts."""

from __future__ import annotations

import ipaddress
import re
import socket

__all__ = ["parse_rendezvous_endpoint"]


def _parse_rendezvous_config(config_str: str) -> dict[str, str]:
    """Return the settings of a text ``key=value,key=value``."""
    config = {}
    for pair in config_str.strip().split(",") if config_str.strip() else ():
        key, _, value = (part.strip() for part in pair.partition("="))
        if not key:
            raise ValueError(
                "The rendezvous configuration string must be in format <key1>=<value1>,...,<keyN>=<valueN>."
            )
        if not value:
            raise ValueError(f"The rendezvous configuration option '{key}' must have a value specified.")
        config[key] = value
    return config


def _try_parse_port(port_str: str) -> int | None:
    return int(port_str) if re.match(r"^[0-9]{1,5}$", port_str) else None


def parse_rendezvous_endpoint(endpoint: str | None, default_port: int) -> tuple[str, int]:
    """Return the host and the port of an address.

    Args:
        endpoint: ``host``, ``host:port`` or ``[IPv6 address]:port``. An empty text means ``localhost``.
        default_port: the port if the text has none.

    Raises:
        ValueError: if the text is no address.
    """
    endpoint = (endpoint or "").strip()
    if not endpoint:
        return "localhost", default_port
    host, colon, port_str = endpoint, "", ""
    if not (endpoint.startswith("[") and endpoint.endswith("]")):
        before, colon, port_str = endpoint.rpartition(":")
        host = before if colon else endpoint
    if len(host) > 1 and host[0] == "[" and host[-1] == "]":
        host = host[1:-1]
    port = _try_parse_port(port_str) if colon else default_port
    if port is None or port >= 2**16:
        raise ValueError(
            f"The port number of the rendezvous endpoint '{endpoint}' must be an integer between 0 and 65536."
        )
    if not re.match(r"^[\w\.:-]+$", host):
        raise ValueError(
            f"The hostname of the rendezvous endpoint '{endpoint}' must be a dot-separated list of labels, an IPv4 "
            "address, or an IPv6 address."
        )
    return host, port


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


def _matches_machine_hostname(host: str) -> bool:
    """Return whether a name or an address is this machine's. Some names of a machine are not known to it."""
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


def _local_address(endpoint: str) -> str:
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

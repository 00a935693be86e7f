"""Who this machine and its user are: the words that must not leave it."""

from __future__ import annotations

import os
import pwd
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rentbench.harness.privacy.credentials import is_secret_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Identity", "of_this_machine"]

_ROOT: Final = Path("/")

# Names that every image or distribution has, and words that a log needs: they name no one.
_NOBODYS: Final = frozenset(
    {"admin", "adm", "bench", "bin", "computer", "container", "cpu", "cuda", "daemon", "data"}
    | {"debian", "docker", "ec2-user", "gpu", "guest", "home", "host", "hostname", "identifier", "ip"}
    | {"linux", "local", "localhost", "mac", "machine", "mail", "main", "max", "mean", "min", "model"}
    | {"node", "nobody", "nogroup", "none", "nvidia", "pod", "python", "rank", "rentbench", "results"}
    | {"root", "runner", "secret", "serial", "server", "system", "test", "tmp", "torch", "train"}
    | {"ubuntu", "unknown", "user", "users", "uuid", "vm", "work", "worker"}
)
_MIN_NAME: Final = 3
_MIN_SECRET: Final = 6


@dataclass(frozen=True, kw_only=True)
class Identity:
    """What to look for.

    Attributes:
        hosts: Host names, with and without their domain.
        users: User names.
        addresses: IPv4 and IPv6 addresses of its interfaces.
        secrets: Values of the environment's variables that hold secrets.
    """

    hosts: frozenset[str]
    users: frozenset[str]
    addresses: frozenset[str]
    secrets: frozenset[str]


def of_this_machine(environment: Mapping[str, str] = os.environ, root: Path = _ROOT) -> Identity:
    """Return who this machine and its user are; never raises, and asks no name server.

    Args:
        environment: Of this process.
        root: Of the file tree to read; another one in tests.
    """
    addresses = frozenset(_addresses(root))
    return Identity(
        hosts=frozenset(_names(_hosts(environment, root, addresses))),
        users=frozenset(_names(_users(environment))),
        addresses=addresses,
        secrets=frozenset(_secrets(environment)),
    )


def _names(found: Iterator[str]) -> Iterator[str]:
    for name in found:
        plain = name.strip()
        if len(plain) >= _MIN_NAME and plain.lower() not in _NOBODYS and not plain.isdigit():
            yield plain


def _hosts(environment: Mapping[str, str], root: Path, addresses: frozenset[str]) -> Iterator[str]:
    found = [socket.gethostname(), environment.get("HOSTNAME", ""), environment.get("POD_NAME", "")]
    found += [_text(root / name) for name in ("etc/hostname", "proc/sys/kernel/hostname")]
    for line in _text(root / "etc/hosts").splitlines():
        address, *names = line.partition("#")[0].split() or [""]
        if address in addresses or address == "127.0.1.1":  # Debian's line for the machine's own name
            found += names
    for name in found:
        yield name
        yield name.partition(".")[0]


def _users(environment: Mapping[str, str]) -> Iterator[str]:
    for variable in ("USER", "LOGNAME", "USERNAME", "SUDO_USER"):
        yield environment.get(variable, "")
    try:
        yield pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return  # an id without a name, as with `docker run --user`


def _addresses(root: Path) -> Iterator[str]:
    # The kernel's routing table lists the machine's own addresses as `32 host LOCAL`.
    table = _text(root / "proc/net/fib_trie")
    for address in re.findall(r"\|-- ([\d.]+)\n\s*/32 host LOCAL", table):
        if not address.startswith("127."):
            yield address
    for line in _text(root / "proc/net/if_inet6").splitlines():
        digits = line.partition(" ")[0]
        groups = [f"{int(digits[start : start + 4], 16):x}" for start in range(0, 32, 4)]
        address = socket.inet_ntop(socket.AF_INET6, socket.inet_pton(socket.AF_INET6, ":".join(groups)))
        if address != "::1":
            yield address


def _secrets(environment: Mapping[str, str]) -> Iterator[str]:
    for name, value in environment.items():
        if is_secret_name(name):
            # A key in several lines meets a log that is read line by line.
            for line in value.splitlines():
                if len(line.strip()) >= _MIN_SECRET and not line.startswith(("/", "-----")):
                    yield line.strip()


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""

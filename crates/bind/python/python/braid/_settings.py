"""Finds the cluster and the identity of the program, in the same sources as the ``braid`` command.

In order of precedence: arguments, the environment (``BRAID_CONFIG``, ``BRAID_MDS``, ``BRAID_KEY``,
``BRAID_AGENT``, ``BRAID_TLS``, ``BRAID_TIMEOUT``, ``BRAID_READ_CACHE``), one ``braid.toml`` (in
the current directory, ``~/.config/braid``, ``/etc/braid``), defaults.
"""

from __future__ import annotations

import os
import re
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _braid

AGENT_SOCKET_DEFAULT = Path("/run/braid/agent.sock")
MDS_DEFAULT = "127.0.0.1:7700"
TIMEOUT_SECONDS_DEFAULT = 30.0
_SIZES = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
_UNITS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0}


@dataclass(frozen=True)
class Settings:
    """The settings of a connection, after all sources are read."""

    mds: list[str]
    key: Path | None
    agent: Path | None
    tls: str
    timeout: float


def resolve(
    mds: str | list[str] | None,
    key: str | os.PathLike[str] | None,
    agent: str | os.PathLike[str] | None,
    tls: str | None,
    timeout: float | None,
    config: str | os.PathLike[str] | None,
) -> Settings:
    """Reads all sources; arguments and environment have precedence over the file.

    Raises ``ValueError`` when no source identifies the program, or the file is wrong.
    """
    file_mds, file_tls, file_key, file_agent, file_timeout = _read(config)
    if timeout is None:
        timeout = seconds(
            os.environ.get("BRAID_TIMEOUT") or file_timeout or TIMEOUT_SECONDS_DEFAULT
        )
    if mds is None:
        mds = os.environ.get("BRAID_MDS") or file_mds or None
    chosen_key, chosen_agent = _credential(key, agent, (file_key, file_agent))
    if mds is None:
        # The agent knows the addresses.
        mds = [] if chosen_agent else MDS_DEFAULT
    return Settings(
        mds=mds.split(",") if isinstance(mds, str) else list(mds),
        key=chosen_key,
        agent=chosen_agent,
        tls=tls or os.environ.get("BRAID_TLS") or file_tls or "unless-loopback",
        timeout=float(timeout),
    )


def seconds(text: str | float) -> float:
    """``500ms``, ``30s``, ``2m`` or a number, in seconds."""
    if not isinstance(text, str):
        return float(text)
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|)", text)
    if found is None:
        raise ValueError(f"'{text}' is not a time such as 500ms, 30s or 2m")
    return float(found[1]) * _UNITS[found[2]]


def read_cache() -> int:
    """``BRAID_READ_CACHE``, such as ``64M``, in bytes; 0 if it is not set."""
    text = os.environ.get("BRAID_READ_CACHE") or "0"
    found = re.fullmatch(r"(\d+)([KMGT]?)(?:iB|B)?", text, re.IGNORECASE)
    if found is None:
        raise ValueError(f"BRAID_READ_CACHE: '{text}' is not a size such as 65536, 64K, 1M or 4GiB")
    return int(found[1]) << _SIZES[found[2].upper()]


def _credential(
    key: Any, agent: Any, file: tuple[Path | None, Path | None]
) -> tuple[Path | None, Path | None]:
    """A key or an agent. A source of higher precedence overrides both kinds in the sources below
    it.
    """
    if key is not None and agent is not None:
        raise ValueError("connecting: both a key and an agent are given; try: one of them")
    sources = [
        (key, agent),
        (os.environ.get("BRAID_KEY"), os.environ.get("BRAID_AGENT")),
        file,
    ]
    for some_key, some_agent in sources:
        if some_key:
            return Path(some_key), None
        if some_agent:
            return None, Path(some_agent)
    if AGENT_SOCKET_DEFAULT.exists():
        return None, AGENT_SOCKET_DEFAULT
    raise ValueError(
        "connecting: there is neither a key nor an agent to identify you; "
        "try: braid.connect(key=FILE), "
        "or start `braid agent` on this host, or config= with the braid.toml of a cluster"
    )


def _read(
    config: str | os.PathLike[str] | None,
) -> tuple[list[str], str | None, Path | None, Path | None, float | None]:
    """Reads the configuration file with the parser of the command. Relative paths in it start at
    its own directory.
    """
    named = config or os.environ.get("BRAID_CONFIG")
    path = Path(named) if named else next((place for place in _places() if place.is_file()), None)
    return ([], None, None, None, None) if path is None else _braid.read_settings(path)


def _places() -> list[Path]:
    return [
        Path("braid.toml"),
        Path.home() / ".config/braid/braid.toml",
        Path("/etc/braid/braid.toml"),
    ]


def name() -> str:
    """The name of this program in ``braid status``."""
    program = os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else "python"
    return f"{socket.gethostname()} ({program}[{os.getpid()}])"


def umask() -> int:
    """The umask of this process, read without changing it if the kernel shows it."""
    try:
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith("Umask:"):
                    return int(line.split()[1], 8)
    except OSError:
        pass
    mask = os.umask(0o022)
    os.umask(mask)
    return mask

"""The client: the calls of the extension, and the functions that Python programs expect besides."""

from __future__ import annotations

import atexit
import errno
import io
import os
import posixpath
import shutil
import stat as stat_bits
import weakref
from collections.abc import Iterator
from typing import IO, Any, Literal, overload

from . import _braid, _settings
from ._file import File

#: Default buffer size of a buffered file, for read-ahead and writes; docs/python.md has the
#: measurements.
BUFFER_BYTES_DEFAULT = 256 * 1024

#: Keywords of :meth:`Client.open` for the layout of a new file.
LAYOUT_WORDS = frozenset(
    (
        "stripe_size iod_count first_iod distribution strips group_width group_depth "
        "placement labels"
    ).split()
)

_clients: weakref.WeakSet[Client] = weakref.WeakSet()


def connect(
    mds: str | list[str] | None = None,
    *,
    key: str | os.PathLike[str] | None = None,
    agent: str | os.PathLike[str] | None = None,
    tls: str | None = None,
    timeout: float | None = None,
    config: str | os.PathLike[str] | None = None,
    umask: int | None = None,
    read_cache: int | None = None,
) -> Client:
    """Connects to a cluster, with the same settings as the ``braid`` command: see
    :mod:`braid._settings`.

    ``mds``: addresses HOST:PORT. ``key``: a key file, or ``agent``: the agent's socket. ``tls``:
    one of ``unless-loopback``, ``always``, ``never``. ``timeout``: maximum wait for a server in one
    call, in seconds. ``umask``: mode bits that new files and directories do not get (default: the
    umask of the process). ``read_cache``: bytes of memory that answer small reads of files that are
    open for reading only (default: ``BRAID_READ_CACHE``, or 0 for none).

    Raises ``OSError`` when the server is not reachable or refuses, ``ValueError`` when settings are
    missing or wrong.
    """
    settings = _settings.resolve(mds, key, agent, tls, timeout, config)
    if settings.agent is not None and not settings.agent.exists():
        raise FileNotFoundError(
            errno.ENOENT,
            f"connecting: there is no agent at {settings.agent}; try: braid agent on this host",
        )
    return Client(
        mds=settings.mds,
        key=settings.key,
        agent=settings.agent,
        tls=settings.tls,
        timeout=settings.timeout,
        name=_settings.name(),
        umask=_settings.umask() if umask is None else umask,
        read_cache=_settings.read_cache() if read_cache is None else read_cache,
    )


class Client(_braid.Client):
    """A client of a cluster, made by :func:`connect`.

    Paths are strings, bytes or ``os.PathLike``, always from the root of the file system. Many
    threads may use a client at the same time. A child after ``fork`` gets errors from it and must
    make its own.
    """

    def __init__(self, **_: Any) -> None:
        _clients.add(self)

    @overload
    def open(
        self,
        path: Any,
        mode: str,
        buffering: Literal[0],
        *,
        permissions: int = 0o666,
        **layout: Any,
    ) -> File: ...

    @overload
    def open(
        self,
        path: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        *,
        permissions: int = 0o666,
        **layout: Any,
    ) -> IO[Any]: ...

    def open(
        self,
        path: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        *,
        permissions: int = 0o666,
        **layout: Any,
    ) -> Any:
        """Opens a file, as the builtin ``open``: text or bytes, buffered; with ``buffering=0``, a
        :class:`File`.

        A new file gets ``permissions`` without the umask, and the layout of the keywords
        ``stripe_size`` (bytes), ``iod_count``, ``first_iod``, ``distribution``, ``placement``,
        ``labels``.
        """
        kind, updating, is_text = _parse(mode)
        if not is_text and (encoding, errors, newline) != (None, None, None):
            raise ValueError("binary mode takes no encoding, errors or newline")
        if is_text and buffering == 0:
            raise ValueError("can't have unbuffered text I/O")
        raw = self._open_raw(path, kind, updating, permissions, layout)
        if buffering == 0:
            return raw
        try:
            size = buffering if buffering > 1 else BUFFER_BYTES_DEFAULT
            buffered = _buffered(raw, size)
            if not is_text:
                return buffered
            text = io.TextIOWrapper(
                buffered, encoding, errors, newline, line_buffering=buffering == 1
            )
            text.mode = mode  # type: ignore[misc]
            return text
        except BaseException:
            raw.close()
            raise

    def _open_raw(
        self, path: Any, kind: str, updating: bool, permissions: int, layout: dict[str, Any]
    ) -> File:
        readable, writable = updating or kind == "r", updating or kind != "r"
        flags = (
            ("r" if readable else "")
            + ("w" if writable else "")
            + {"r": "", "w": "ct", "a": "c", "x": "x"}[kind]
        )
        handle = self.open_handle(path, flags, permissions, layout or None)
        mode = kind + "b" + ("+" if updating else "")
        return File(handle, os.fspath(path), mode)

    def listdir(self, path: Any = "/") -> list[str]:
        """The names in a directory, in any order."""
        return [entry.name for entry in self.scandir(path)]

    def lstat(self, path: Any) -> _braid.Stat:
        """Attributes of a symbolic link itself."""
        return self.stat(path, follow_symlinks=False)

    def exists(self, path: Any) -> bool:
        """Whether the path exists; a broken symbolic link does not."""
        return self._mode(path) is not None

    def isdir(self, path: Any) -> bool:
        """Whether the path is a directory, or a link to one."""
        mode = self._mode(path)
        return mode is not None and stat_bits.S_ISDIR(mode)

    def isfile(self, path: Any) -> bool:
        """Whether the path is a regular file, or a link to one."""
        mode = self._mode(path)
        return mode is not None and stat_bits.S_ISREG(mode)

    def _mode(self, path: Any) -> int | None:
        try:
            return self.stat(path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return None

    def access(self, path: Any, mode: int) -> bool:
        """Whether this program has the permissions ``os.R_OK``, ``W_OK``, ``X_OK`` in ``mode``."""
        try:
            self.check_access(path, mode)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return False
        return True

    def makedirs(self, path: Any, mode: int = 0o777, exist_ok: bool = False) -> None:
        """Creates a directory and its missing parents."""
        try:
            self.mkdir(path, mode)
        except FileNotFoundError:
            above = posixpath.dirname(os.fsdecode(path).rstrip("/"))
            self.makedirs(above, exist_ok=True)
            self.makedirs(path, mode, exist_ok)
        except FileExistsError:
            if not exist_ok or not self.isdir(path):
                raise

    def rmtree(self, path: Any) -> None:
        """Removes a directory and everything below it; does not follow symbolic links."""
        path = os.fsdecode(path)
        for entry in list(self.scandir(path)):
            below = posixpath.join(path, entry.name)
            self.rmtree(below) if entry.is_dir() else self.remove(below)
        self.rmdir(path)

    def walk(self, top: Any = "/") -> Iterator[tuple[str, list[str], list[str]]]:
        """As ``os.walk``, from the top down."""
        top = os.fsdecode(top)
        directories: list[str] = []
        others: list[str] = []
        for entry in self.scandir(top):
            (directories if entry.is_dir() else others).append(entry.name)
        yield top, directories, others
        for name in directories:
            yield from self.walk(posixpath.join(top, name))

    def copy(self, from_: Any, to: Any, *, permissions: int = 0o666) -> int:
        """Copies the bytes of a file and returns their number. The I/O daemons copy if both files
        have the same placement. ``to`` is created, or truncated first.
        """
        with (
            self.open(from_, "rb", 0) as source,
            File(self.open_handle(to, "wc", permissions), to, "wb") as target,
        ):
            if source.stat().st_ino == target.stat().st_ino:
                raise shutil.SameFileError(f"{from_!r} and {to!r} are the same file")
            target.truncate(0)
            return target.copy_from(source)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError("a client cannot be pickled; try: braid.connect() in each process")


def _parse(mode: str) -> tuple[str, bool, bool]:
    """Kind (one of r, w, a, x), whether it both reads and writes, whether it is text."""
    kinds = [letter for letter in mode if letter in "rwax"]
    wrong = set(mode) - set("rwaxbt+") or len(mode) > len(set(mode)) or {"b", "t"} <= set(mode)
    if wrong or len(kinds) != 1:
        raise ValueError(
            f"invalid mode: {mode!r}; try: one of r, w, a, x, with b for bytes and + to read and "
            "write, such as 'rb+'"
        )
    return kinds[0], "+" in mode, "b" not in mode


def _buffered(raw: File, size: int) -> Any:
    if raw.readable() and raw.writable():
        return io.BufferedRandom(raw, size)
    return io.BufferedReader(raw, size) if raw.readable() else io.BufferedWriter(raw, size)


@atexit.register
def _close_all() -> None:
    """Closes all sessions. Otherwise the server would end each of them after a time-out."""
    for client in list(_clients):
        client.close()

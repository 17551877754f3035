"""``braid://`` for fsspec: pandas, pyarrow, zarr, xarray and other users of fsspec's paths.

``braid:///a/b`` is a file of the cluster that the ``braid`` command finds.
``braid://host:7700/a/b`` is a file of the cluster with this metadata server. A server needs its
port: ``braid://a/b`` and ``braid:/a/b`` are the path ``/a/b``, since programs collapse slashes.
Options are those of :func:`braid.connect`, and ``auto_mkdir``.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import os
import posixpath
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.spec import AbstractFileSystem
from fsspec.utils import isfilelike, stringify_path, tokenize

from ._braid import Stat
from ._client import LAYOUT_WORDS, Client, connect
from ._file import File
from ._opened import AsyncOpened, open_buffered

#: Files that one call reads, writes or copies at the same time. A large file uses all I/O daemons
#: alone; this hides the round trips of opens of many small files.
FILES_AT_ONCE = 16
#: One step of get_file and put_file: several windows for each of several I/O daemons.
STEP_BYTES = 16 << 20

T = TypeVar("T")

_PREFIX = "braid:"
#: Metadata servers in a URL: HOST:PORT or [ADDRESS]:PORT, separated by commas.
_SERVERS = re.compile(r"(?:\[[^]/]*]|[^:/,\[\]]+):\d+(?:,(?:\[[^]/]*]|[^:/,\[\]]+):\d+)*")
_MAGIC = set("*?[")


@dataclass
class _Connection:
    """The connection of one process: a child after ``fork`` makes its own."""

    process: int
    client: Client
    pool: ThreadPoolExecutor


class BraidFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """A cluster as a file system of fsspec.

    ``mds``, ``key``, ``agent``, ``tls``, ``timeout``, ``config``: as in :func:`braid.connect`.
    ``auto_mkdir``: whether missing parent directories of a new file are created, as in object
    stores. It connects at its first call, and again in a child after ``fork``. It can be pickled.
    """

    protocol = "braid"
    root_marker = "/"

    def __init__(
        self,
        mds: str | list[str] | None = None,
        *,
        key: str | None = None,
        agent: str | None = None,
        tls: str | None = None,
        timeout: float | None = None,
        config: str | None = None,
        auto_mkdir: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.auto_mkdir = auto_mkdir
        connection = {
            "mds": mds,
            "key": key,
            "agent": agent,
            "tls": tls,
            "timeout": timeout,
            "config": config,
        }
        self._connection: dict[str, Any] = connection
        self._live: _Connection | None = None
        self._connecting = threading.Lock()

    # The connection.

    @property
    def client(self) -> Client:
        """The client of this file system."""
        return self._connected().client

    def _connected(self) -> _Connection:
        live = self._live
        if live is not None and live.process == os.getpid():
            return live
        if live is not None:
            # A thread of the parent may have held the lock at the fork.
            self._connecting = threading.Lock()
        with self._connecting:
            if self._live is None or self._live.process != os.getpid():
                pool = ThreadPoolExecutor(FILES_AT_ONCE, "braid-fsspec")
                self._live = _Connection(os.getpid(), connect(**self._connection), pool)
            return self._live

    def _each(self, call: Callable[..., Any], *arguments: Iterable[Any]) -> list[Any]:
        """Makes a call for each of the arguments, in parallel. Returns a value or an exception for
        each.
        """

        def outcome_of(*some: Any) -> Any:
            try:
                return call(*some)
            except Exception as error:
                return error

        several = list(zip(*arguments, strict=True))
        if len(several) == 1:
            return [outcome_of(*several[0])]
        return list(self._connected().pool.map(lambda some: outcome_of(*some), several))

    # Names.

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        path = stringify_path(path)
        if path.startswith(_PREFIX):
            path = _without_server(path)[1]
        return "/" + path.strip("/")

    @staticmethod
    def _get_kwargs_from_urls(path: Any) -> dict[str, Any]:
        path = stringify_path(path)
        server = (
            _without_server(path)[0] if isinstance(path, str) and path.startswith(_PREFIX) else ""
        )
        return {"mds": server} if server else {}

    def unstrip_protocol(self, name: str) -> str:
        """The URL of a path, with the metadata servers of this instance."""
        mds = self._connection["mds"] or ""
        servers = mds if isinstance(mds, str) else ",".join(mds)
        # A server without a port has no URL.
        return (
            f"braid://{servers if _SERVERS.fullmatch(servers) else ''}{self._strip_protocol(name)}"
        )

    @classmethod
    def _parent(cls, path: Any) -> str:
        return posixpath.dirname(str(cls._strip_protocol(path)))

    # Attributes and listings.

    def info(self, path: Any, **_: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        stat = self.client.lstat(path)
        if stat.kind != "link":
            return _info(path, stat)
        return _info(path, self.client.stat(path), self.client.readlink(path))

    def ls(self, path: Any, detail: bool = True, **_: Any) -> list[Any]:
        path = self._strip_protocol(path)
        try:
            entries = list(self.client.scandir(path, attributes=True))
        except NotADirectoryError:
            return [self.info(path)] if detail else [path]
        names = [posixpath.join(path, entry.name) for entry in entries]
        if not detail:
            return sorted(names)
        infos = [self._info_of(name, entry) for name, entry in zip(names, entries, strict=True)]
        return sorted((info for info in infos if info is not None), key=lambda info: info["name"])

    def _info_of(self, path: str, entry: Any) -> dict[str, Any] | None:
        if entry.attributes is not None and not entry.is_symlink():
            return _info(path, entry.attributes)
        try:
            return self.info(path)
        except FileNotFoundError:
            # Removed meanwhile, or a broken symbolic link.
            return (
                _info(path, entry.attributes, self.client.readlink(path))
                if entry.attributes is not None
                else None
            )

    def find(
        self,
        path: Any,
        maxdepth: int | None = None,
        withdirs: bool = False,
        detail: bool = False,
        prefix: str = "",
        **options: Any,
    ) -> Any:
        """All files below a directory; with ``prefix``, those whose relative path starts with it.
        Lists only directories that can contain such names.
        """
        if not prefix:
            return super().find(path, maxdepth, withdirs, detail, **options)
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        prefix = prefix.lstrip("/")
        above, start = posixpath.split(posixpath.join(self._strip_protocol(path), prefix))
        left = None if maxdepth is None else maxdepth - prefix.count("/")
        found: dict[str, Any] = {}
        for info in self._ls_of_directory(above) if left is None or left > 0 else []:
            name = info["name"]
            if not posixpath.basename(name).startswith(start):
                continue
            if withdirs or info["type"] != "directory":
                found[name] = info
            if info["type"] == "directory" and (left is None or left > 1):
                found |= super().find(name, left and left - 1, withdirs, detail=True, **options)
        return dict(sorted(found.items())) if detail else sorted(found)

    def _ls_of_directory(self, path: str) -> list[dict[str, Any]]:
        """The entries of a directory; an empty list if it does not exist."""
        try:
            return self.ls(path) if self.isdir(path) else []
        except FileNotFoundError:
            return []

    def lexists(self, path: Any, **_: Any) -> bool:
        try:
            self.client.lstat(self._strip_protocol(path))
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def islink(self, path: Any) -> bool:
        path = self._strip_protocol(path)
        return self.lexists(path) and self.client.lstat(path).kind == "link"

    def created(self, path: Any) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self.info(path)["created"], tz=datetime.UTC)

    def modified(self, path: Any) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self.info(path)["mtime"], tz=datetime.UTC)

    def checksum(self, path: Any) -> int:
        return int(self.ukey(path), 16)

    def ukey(self, path: Any) -> str:
        """A key that changes whenever the file changes. It may also change in the seconds after a
        write.
        """
        stat = self.client.stat(self._strip_protocol(path))
        return str(tokenize(stat.st_ino, stat.change, stat.st_mtime_ns, stat.st_size))

    # Directories.

    def mkdir(self, path: Any, create_parents: bool = True, **_: Any) -> None:
        path = self._strip_protocol(path)
        if create_parents:
            self.client.makedirs(path)
        else:
            self.client.mkdir(path)

    def makedirs(self, path: Any, exist_ok: bool = False) -> None:
        self.client.makedirs(self._strip_protocol(path), exist_ok=exist_ok)

    def rmdir(self, path: Any) -> None:
        self.client.rmdir(self._strip_protocol(path))

    def _making_directories(self, path: str, make: Callable[[], T]) -> T:
        """Calls ``make``; with ``auto_mkdir``, creates the missing parent directory first."""
        try:
            return make()
        except FileNotFoundError:
            if not self.auto_mkdir:
                raise
            self.client.makedirs(self._parent(path), exist_ok=True)
            return make()

    # Whole files and ranges.

    def cat_file(
        self, path: Any, start: int | None = None, end: int | None = None, **_: Any
    ) -> bytes:
        return self._read_slices(self._strip_protocol(path), [start], [end])[0]

    def cat_ranges(
        self,
        paths: list[Any],
        starts: int | None | list[int | None],
        ends: int | None | list[int | None],
        max_gap: int | None = None,
        on_error: str = "return",
        **_: Any,
    ) -> list[Any]:
        """The bytes of ranges of files, in the order given: one list request for each file, files
        in parallel.

        Ranges may be in any order and may overlap. With ``on_error="return"`` an exception replaces
        bytes that cannot be read. ``max_gap`` has no effect: gaps in a list need no further
        requests.
        """
        if not isinstance(paths, list):
            raise TypeError("paths is not a list")
        starts = starts if isinstance(starts, list) else [starts] * len(paths)
        ends = ends if isinstance(ends, list) else [ends] * len(paths)
        if not len(paths) == len(starts) == len(ends):
            raise ValueError("paths, starts and ends differ in length")
        # Many ranges have few distinct paths: each path is handled once. If all ranges are of one
        # file, the lists are passed on unchanged.
        wanted: dict[str, list[int]] = {}
        numbers_of = {
            path: wanted.setdefault(self._strip_protocol(path), []) for path in set(paths)
        }
        if len(wanted) == 1:
            (path,) = wanted
            (pieces,) = self._each(self._read_slices, [path], [starts], [ends])
            return self._pieces_or_raise(pieces, len(paths), on_error)
        for number, one in enumerate(paths):
            numbers_of[one].append(number)
        read = functools.partial(self._read_slices, starts=starts, ends=ends)
        found: list[Any] = [None] * len(paths)
        outcomes = self._each(
            lambda path, numbers: read(path, numbers=numbers), wanted, wanted.values()
        )
        for numbers, outcome in zip(wanted.values(), outcomes, strict=True):
            for number, piece in zip(
                numbers, self._pieces_or_raise(outcome, len(numbers), on_error), strict=True
            ):
                found[number] = piece
        return found

    @staticmethod
    def _pieces_or_raise(outcome: Any, count: int, on_error: str) -> list[Any]:
        """The pieces of a file, or the exception in place of each."""
        if not isinstance(outcome, Exception):
            pieces: list[Any] = outcome
            return pieces
        if on_error != "return":
            raise outcome
        return [outcome] * count

    def _read_slices(
        self,
        path: str,
        starts: list[int | None],
        ends: list[int | None],
        numbers: list[int] | None = None,
    ) -> list[bytes]:
        with self._raw(path) as file:
            return file._handle.read_slices(starts, ends, numbers)

    def cat(self, path: Any, recursive: bool = False, on_error: str = "raise", **_: Any) -> Any:
        paths = self.expand_path(path, recursive=recursive)
        if (
            isinstance(path, (str, os.PathLike))
            and paths == [self._strip_protocol(path)]
            and not recursive
        ):
            return self.cat_file(paths[0])
        files = [one for one in paths if not recursive or not self.isdir(one)]
        contents = dict(zip(files, self._each(self.cat_file, files), strict=True)) if files else {}
        errors = [content for content in contents.values() if isinstance(content, Exception)]
        if errors and on_error == "raise":
            raise errors[0]
        if on_error == "omit":
            return {
                name: content
                for name, content in contents.items()
                if not isinstance(content, Exception)
            }
        return contents

    def pipe_file(self, path: Any, value: Any, mode: str = "overwrite", **options: Any) -> None:
        with self._writing(path, mode, options) as file:
            file.write(value)

    @contextlib.contextmanager
    def _writing(self, path: Any, mode: str, options: dict[str, Any]) -> Iterator[Any]:
        """Opens a file to write all of its bytes: ``mode`` is ``create`` or ``overwrite``. In a
        transaction, the file appears when the transaction ends.
        """
        kind = "xb" if mode == "create" else "wb"
        if not self._intrans:
            with self._raw(path, kind, **_layout_of(options)) as file:
                yield file
            return
        deferred = self.open(path, kind, **options)
        try:
            yield deferred
            deferred.close()
        except BaseException:
            # The program may catch the exception and commit the transaction: a partial file must
            # not get the name.
            self.transaction.files.remove(deferred)
            deferred.discard()
            raise

    def pipe(self, path: Any, value: Any = None, **options: Any) -> None:
        if not isinstance(path, dict):
            return self.pipe_file(path, value, **options)
        for outcome in self._each(
            lambda name, bytes_: self.pipe_file(name, bytes_, **options), path, path.values()
        ):
            if outcome is not None:
                raise outcome

    def get_file(
        self,
        rpath: Any,
        lpath: Any,
        callback: Any = DEFAULT_CALLBACK,
        outfile: Any = None,
        **_: Any,
    ) -> None:
        if outfile is None and isfilelike(lpath):
            outfile = lpath
        if outfile is None and self.isdir(rpath):
            os.makedirs(lpath, exist_ok=True)
            return
        with self._raw(rpath) as source:
            callback.set_size(source.size())
            if outfile is not None:
                _copy_bytes(source, outfile, callback)
                return
            os.makedirs(os.path.dirname(os.path.abspath(lpath)), exist_ok=True)
            with open(lpath, "wb", 0) as target:
                _copy_bytes(source, target, callback)

    def put_file(
        self,
        lpath: Any,
        rpath: Any,
        callback: Any = DEFAULT_CALLBACK,
        mode: str = "overwrite",
        **options: Any,
    ) -> None:
        if os.path.isdir(lpath):
            self.makedirs(rpath, exist_ok=True)
            return
        with open(lpath, "rb", 0) as source:
            callback.set_size(os.fstat(source.fileno()).st_size)
            with self._writing(rpath, mode, options) as target:
                _copy_bytes(source, target, callback)

    def cp_file(self, path1: Any, path2: Any, **_: Any) -> None:
        """Copies within the file system. The I/O daemons copy if both files have the same
        placement.
        """
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.info(path1)["type"] == "directory":
            self.makedirs(path2, exist_ok=True)
        else:
            self._making_directories(path2, lambda: self.client.copy(path1, path2))

    def touch(self, path: Any, truncate: bool = True, **_: Any) -> None:
        path = self._strip_protocol(path)
        self._making_directories(path, lambda: self.client.make_file(path))
        self.client.utime(path)
        if truncate:
            self.client.truncate(path, 0)

    # Renames and removals.

    def mv(
        self, path1: Any, path2: Any, recursive: bool = False, maxdepth: int | None = None, **_: Any
    ) -> None:
        """Renames each file or directory atomically; moves it into ``path2`` if that is a
        directory.
        """
        into = isinstance(path2, str) and path2.endswith("/")
        sources = self.expand_path(path1) if _is_pattern(path1) else [self._strip_protocol(path1)]
        targets = (
            [self._strip_protocol(path2)] * len(sources) if not isinstance(path2, list) else path2
        )
        for source, target in zip(sources, targets, strict=True):
            target = self._strip_protocol(target)
            if not isinstance(path2, list) and source != target and (into or self.isdir(target)):
                target = posixpath.join(target, posixpath.basename(source))
            # A missing source must not create directories.
            self.client.lstat(source)
            self._making_directories(target, functools.partial(self.client.rename, source, target))

    def rm_file(self, path: Any) -> None:
        self.client.remove(self._strip_protocol(path))

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Removes files, and with ``recursive`` directories with their contents, down to
        ``maxdepth`` levels; a deeper directory that is not empty is an error. Removes symbolic
        links without following them.
        """
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        for one in self.expand_path(path) if _is_pattern(path) else [self._strip_protocol(path)]:
            if self.client.lstat(one).kind != "directory":
                self.client.remove(one)
            elif not recursive:
                raise IsADirectoryError(f"{one} is a directory; try: rm(path, recursive=True)")
            elif maxdepth is None:
                self.client.rmtree(one)
            else:
                self._remove_down(one, maxdepth)

    def _remove_down(self, path: str, depth: int) -> None:
        # ``ls`` follows symbolic links; this listing does not.
        for entry in sorted(self.client.scandir(path), key=lambda entry: entry.is_dir()):
            below = posixpath.join(path, entry.name)
            if not entry.is_dir():
                self.client.remove(below)
            elif depth > 1:
                self._remove_down(below, depth - 1)
            else:
                self.client.rmdir(below)
        self.client.rmdir(path)

    def symlink(self, src: Any, dst: Any) -> None:
        self.client.symlink(self._strip_protocol(src), self._strip_protocol(dst))

    def link(self, src: Any, dst: Any) -> None:
        self.client.link(self._strip_protocol(src), self._strip_protocol(dst))

    def chmod(self, path: Any, mode: int) -> None:
        self.client.chmod(self._strip_protocol(path), mode)

    # Open files.

    def _raw(self, path: Any, mode: str = "rb", **layout: Any) -> File:
        path = self._strip_protocol(path)

        def open_it() -> File:
            file: File = self.client.open(path, mode, 0, **layout)
            return file

        return open_it() if mode[0] == "r" else self._making_directories(path, open_it)

    def _open(
        self,
        path: Any,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: Any = None,
        **options: Any,
    ) -> Any:
        path = self._strip_protocol(path)
        return open_buffered(self, path, mode, block_size, autocommit, _layout_of(options))

    async def open_async(self, path: Any, mode: str = "rb", **options: Any) -> AsyncOpened:
        """As :meth:`open`, for bytes; the file's calls are awaited. They run in threads of this
        file system.
        """
        if "b" not in mode or options.get("compression"):
            raise ValueError(
                "open_async: it supports only uncompressed bytes; try: mode='rb' and no compression"
            )
        return await AsyncOpened.of(
            self._connected().pool, functools.partial(self.open, path, mode, **options)
        )


def _without_server(url: str) -> tuple[str, str]:
    """The server in a URL, or an empty string, and the path."""
    rest = url.removeprefix(_PREFIX)
    if not rest.startswith("//"):
        return "", rest
    server, _, path = rest[2:].partition("/")
    # Libraries that join URLs like paths turn braid:///a/b into braid://a/b.
    return (server, path) if _SERVERS.fullmatch(server) else ("", rest[2:])


def _layout_of(options: dict[str, Any]) -> dict[str, Any]:
    """The layout and permissions in the options of a new file. Other keywords (``cache_type``,
    ``version_id``, ``content_type``, ...) are for other file systems: programs pass them to all,
    and each uses those that it knows.
    """
    return {
        word: value
        for word, value in options.items()
        if word in LAYOUT_WORDS or word == "permissions"
    }


def _info(path: str, stat: Stat, destination: str | None = None) -> dict[str, Any]:
    kind = stat.kind if stat.kind in ("file", "directory") else "other"
    info = {
        "name": path,
        "size": stat.st_size if kind == "file" else 0,
        "type": kind,
        "created": stat.st_birthtime,
        "mtime": stat.st_mtime,
        "mode": stat.st_mode,
        "uid": stat.st_uid,
        "gid": stat.st_gid,
        "ino": stat.st_ino,
        "nlink": stat.st_nlink,
        "islink": destination is not None,
    }
    if destination is not None:
        info["destination"] = destination
    return info


def _is_pattern(path: Any) -> bool:
    return isinstance(path, (list, tuple)) or bool(_MAGIC & set(stringify_path(path)))


def _copy_bytes(source: Any, target: Any, callback: Any) -> None:
    """Copies the bytes of an open file to another open file."""
    memory = memoryview(bytearray(STEP_BYTES))
    while count := source.readinto(memory):
        written = 0
        while written < count:
            written += target.write(memory[written:count]) or count - written
        callback.relative_update(count)

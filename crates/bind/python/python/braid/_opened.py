"""The files of ``BraidFileSystem.open``: Python's buffered files, with the attributes that users of
fsspec expect.
"""

from __future__ import annotations

import asyncio
import functools
import io
import posixpath
import secrets
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

from fsspec.utils import read_block

from ._client import BUFFER_BYTES_DEFAULT
from ._file import File

if TYPE_CHECKING:
    from .fs import BraidFileSystem


def open_buffered(
    fs: BraidFileSystem,
    path: str,
    mode: str,
    block_size: int | None,
    autocommit: bool,
    layout: dict[str, Any],
) -> Opened:
    """Opens a file for bytes. Without ``autocommit``, a commit gives the file its name."""
    is_scratch = not autocommit and "r" not in mode
    if is_scratch and "a" in mode:
        raise ValueError("a transaction cannot append; try: fs.open(path, 'wb') with all of it")
    place = scratch_name(path) if is_scratch else path
    raw = fs._raw(place, mode, **layout)
    kind: Any = (
        Random if raw.readable() and raw.writable() else Reader if raw.readable() else Writer
    )
    blocksize = block_size if isinstance(block_size, int) else BUFFER_BYTES_DEFAULT
    opened: Opened = kind(raw, blocksize)
    opened.fs, opened.path, opened.autocommit, opened.blocksize = (
        fs,
        path,
        not is_scratch,
        blocksize,
    )
    opened._scratch, opened._replaces = place, "x" not in mode
    return opened


def scratch_name(path: str) -> str:
    """A temporary name in the directory of ``path``, so that the final rename moves no data."""
    directory, name = posixpath.split(path)
    return posixpath.join(directory, f".{name[:200]}.{secrets.token_hex(8)}.part")


class Opened:
    """The attributes of fsspec's open files that Python's own files lack."""

    fs: BraidFileSystem
    path: str
    autocommit: bool
    #: Buffer size, in bytes.
    blocksize: int
    _scratch: str
    _replaces: bool

    @property
    def size(self) -> int:
        """The current size of the file, in bytes."""
        if self.writable():  # type: ignore[attr-defined]
            self.flush()  # type: ignore[attr-defined]
        raw: File = self.raw  # type: ignore[attr-defined]
        return raw.size()

    @property
    def full_name(self) -> str:
        return self.fs.unstrip_protocol(self.path)

    @property
    def details(self) -> dict[str, Any]:
        """The file's entry in the file system."""
        return self.info()

    @property
    def loc(self) -> int:
        """The position of the next read or write."""
        return self.tell()  # type: ignore[attr-defined, no-any-return]

    def info(self) -> dict[str, Any]:
        return self.fs.info(self.path)

    def readuntil(self, char: bytes = b"\n", blocks: int | None = None) -> bytes:
        """Reads up to and including the first ``char``, or to the end of the file. ``blocks``:
        bytes of each step.
        """
        parts: list[bytes] = []
        step = max(blocks or self.blocksize, len(char))
        while part := self.read(step):  # type: ignore[attr-defined]
            # ``char`` may span two steps.
            last = parts[-1][-len(char) + 1 :] if parts and len(char) > 1 else b""
            at = (last + part).find(char)
            if at >= 0:
                end = at + len(char) - len(last)
                parts.append(part[:end])
                self.seek(end - len(part), io.SEEK_CUR)  # type: ignore[attr-defined]
                break
            parts.append(part)
        return b"".join(parts)

    def read_block(self, offset: int, length: int | None, delimiter: bytes | None = None) -> bytes:
        """As ``fsspec.utils.read_block``: ``length`` bytes from ``offset``. With a delimiter, both
        ends move to just after the next delimiter.
        """
        return read_block(self, offset, length, delimiter)  # type: ignore[no-any-return]

    def commit(self) -> None:
        """Gives the file of a transaction its name."""
        if self.autocommit:
            raise RuntimeError("can only commit files that were opened in a transaction")
        self.close()  # type: ignore[attr-defined]
        self.fs.client.rename(self._scratch, self.path, replace=self._replaces)

    def discard(self) -> None:
        """Removes the file of a transaction."""
        if self.autocommit:
            raise RuntimeError("can only discard files that were opened in a transaction")
        try:
            self.close()  # type: ignore[attr-defined]
        finally:
            self.fs.client.remove(self._scratch)


class Reader(Opened, io.BufferedReader):
    """Open for reading. If ``cache`` is set, as by fsspec's ``blockcache``, all reads go through
    it.
    """

    _cache: Any = None

    @property
    def cache(self) -> Any:
        """The fsspec cache of the file, or ``None``: Python's own buffer needs none."""
        return self._cache

    @cache.setter
    def cache(self, cache: Any) -> None:
        self._cache = cache
        raw: Any = self.raw
        file = raw.file if isinstance(raw, _Cached) else raw
        io.BufferedReader.__init__(
            self, file if cache is None else _Cached(file, cache), self.blocksize
        )

    def _fetch_range(self, start: int, end: int) -> bytes:
        """Reads bytes of the file without a cache, for an fsspec cache."""
        raw: Any = self.raw
        file: File = raw.file if isinstance(raw, _Cached) else raw
        return file.read_at(end - start, start)

    @property
    def closed(self) -> bool:
        return self.raw.closed

    @closed.setter
    def closed(self, closed: bool) -> None:
        """fsspec's caching file system sets this after it has closed the file."""
        if closed:
            self.raw.close()

    def __reduce__(self) -> Any:
        return _reopen, (self.fs, self.path, self.tell())


class Writer(Opened, io.BufferedWriter):
    """Open for writing."""


class Random(Opened, io.BufferedRandom):
    """Open for reading and writing."""


def _reopen(fs: BraidFileSystem, path: str, position: int) -> Any:
    file = fs.open(path, "rb")
    file.seek(position)
    return file


class _Cached(io.RawIOBase):
    """A file, read through a cache of fsspec."""

    def __init__(self, file: File, cache: Any) -> None:
        self.file, self._cache, self._position = file, cache, 0
        self.name, self.mode = file.name, file.mode

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position}.get(whence)
        position = offset + (self.size() if base is None else base)
        if position < 0:
            raise ValueError(f"negative seek position {position}")
        self._position = position
        return position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any) -> int:
        into = memoryview(buffer).cast("B")
        found = self._cache._fetch(self._position, self._position + len(into))
        into[: len(found)] = found
        self._position += len(found)
        return len(found)

    def size(self) -> int:
        return self.file.size()

    def close(self) -> None:
        if not self.closed:
            try:
                super().close()
            finally:
                self.file.close()


class AsyncOpened:
    """An open file whose calls are awaited. They run one after the other, since they share a
    cursor.
    """

    def __init__(self, file: Any, threads: Executor) -> None:
        self._file, self._threads, self._order = file, threads, asyncio.Lock()

    @classmethod
    async def of(cls, threads: Executor, open_it: Callable[[], Any]) -> AsyncOpened:
        """Opens in one of the threads."""
        return cls(await asyncio.get_running_loop().run_in_executor(threads, open_it), threads)

    async def _run(self, call: Callable[..., Any], *arguments: Any) -> Any:
        async with self._order:
            made = functools.partial(call, *arguments)
            return await asyncio.get_running_loop().run_in_executor(self._threads, made)

    async def read(self, length: int = -1) -> bytes:
        """Reads ``length`` bytes at the cursor, fewer only at the end; without it all the rest."""
        return await self._run(self._file.read, length)  # type: ignore[no-any-return]

    async def write(self, data: Any) -> int:
        return await self._run(self._file.write, data)  # type: ignore[no-any-return]

    async def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return await self._run(self._file.seek, offset, whence)  # type: ignore[no-any-return]

    def tell(self) -> int:
        """The position of the cursor. Makes no call to a server."""
        return self._file.tell()  # type: ignore[no-any-return]

    async def flush(self) -> None:
        await self._run(self._file.flush)

    async def size(self) -> int:
        """The current size of the file, in bytes."""
        return await self._run(lambda: self._file.size)  # type: ignore[no-any-return]

    async def close(self) -> None:
        await self._run(self._file.close)

    @property
    def closed(self) -> bool:
        return bool(self._file.closed)

    async def __aenter__(self) -> AsyncOpened:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

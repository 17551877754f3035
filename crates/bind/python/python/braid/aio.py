"""For asyncio: the same calls, awaited.

>>> client = await braid.aio.connect()                                           # doctest: +SKIP
>>> async with await client.open("/matrix", "rb") as file:                       # doctest: +SKIP
...     first, second = await asyncio.gather(file.read_at(4096, 0), file.read_at(4096, 1 << 20))

Each call runs in a thread of the client, which waits for the servers without the GIL;
docs/python.md shows its cost. A cancelled call is no longer awaited, but runs to its end.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import itertools
import os
import posixpath
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from . import _client, _file
from ._braid import DirEntry, View

#: Maximum number of calls of one client at the same time; further calls wait.
CALLS_AT_ONCE = 64

#: Directory entries per call of a thread: passing a result to the event loop costs 25 us, an entry
#: 1 us.
ENTRIES_AT_ONCE = 256

#: Calls of a client and of a file that wait for a server.
_CLIENT_CALLS = (
    "access chmod chown copy exchange exists getxattr isdir isfile layout link listdir listxattr "
    "lstat make_file makedirs mkdir readlink remove removexattr rename rmdir rmtree room "
    "set_layout setxattr stat symlink sync sync_directory truncate utime whoami"
).split()
_FILE_CALLS = (
    "allocate punch_hole read_at read_ranges readall readinto_at readinto_ranges readv_at size "
    "stat sync truncate write_at write_ranges writev_at"
).split()
#: Calls in which tasks wait for each other.
_COLLECTIVE_CALLS = "read_all_at readinto_all_at write_all_at".split()


async def connect(*arguments: Any, **options: Any) -> Client:
    """As :func:`braid.connect`."""
    threads = ThreadPoolExecutor(CALLS_AT_ONCE, "braid-aio")
    try:
        call = functools.partial(_client.connect, *arguments, **options)
        client = await asyncio.get_running_loop().run_in_executor(threads, call)
    except BaseException:
        threads.shutdown(wait=False)
        raise
    return Client(client, threads)


def _awaited(name: str, of: type) -> Callable[..., Awaitable[Any]]:
    async def call(self: Any, *arguments: Any, **options: Any) -> Any:
        return await self._run(getattr(self._inner, name), *arguments, **options)

    return _as(call, getattr(of, name))


def _awaited_together(name: str, of: type) -> Callable[..., Awaitable[Any]]:
    """Runs in a thread of its own. Otherwise tasks that wait could use all threads of the client,
    and the tasks that they wait for could not start.
    """

    async def call(self: Any, *arguments: Any, **options: Any) -> Any:
        thread = ThreadPoolExecutor(1, "braid-aio-together")
        try:
            made = functools.partial(getattr(self._inner, name), *arguments, **options)
            return await asyncio.get_running_loop().run_in_executor(thread, made)
        finally:
            thread.shutdown(wait=False)

    return _as(call, getattr(of, name))


def _as(call: Any, inner: Any) -> Callable[..., Awaitable[Any]]:
    call.__name__, call.__doc__ = inner.__name__, inner.__doc__
    call.__signature__ = inspect.signature(inner)  # type: ignore[attr-defined]
    return call


class _Awaited:
    """An object whose calls run in threads. A client and its files share the threads. They end when
    the last of these objects is closed or deleted: an executor without references ends its threads.
    """

    def __init__(self, inner: Any, threads: ThreadPoolExecutor | None) -> None:
        self._inner, self._threads = inner, threads

    async def _run(self, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        made = functools.partial(call, *arguments, **options)
        if self._threads is None:
            # The object is closed: the call raises the error without a server.
            return made()
        return await asyncio.get_running_loop().run_in_executor(self._threads, made)

    async def _close(self) -> None:
        try:
            await self._run(self._inner.close)
        finally:
            self._threads = None


class Client(_Awaited):
    """The calls of :class:`braid.Client`, awaited. Made by :func:`connect`."""

    async def open(self, path: Any, mode: str = "rb", **layout: Any) -> File:
        """Opens a file for bytes, unbuffered: :class:`File`."""
        if "b" not in mode:
            raise ValueError(f"invalid mode: {mode!r}; try: one with b, and bytes")
        threads = self._threads
        return File(await self._run(self._inner.open, path, mode, 0, **layout), threads)

    async def scandir(
        self, path: Any = "/", *, attributes: bool = False
    ) -> AsyncIterator[DirEntry]:
        """As :meth:`braid.Client.scandir`, for ``async for``: entries are fetched as needed."""
        entries = await self._run(self._inner.scandir, path, attributes=attributes)
        while some := await self._run(lambda: list(itertools.islice(entries, ENTRIES_AT_ONCE))):
            for entry in some:
                yield entry

    async def walk(self, top: Any = "/") -> AsyncIterator[tuple[str, list[str], list[str]]]:
        """As :meth:`braid.Client.walk`, for ``async for``: from the top down, into the directories
        that the loop has left in the second list.
        """
        path = os.fsdecode(top)
        directories: list[str] = []
        others: list[str] = []
        async for entry in self.scandir(path):
            (directories if entry.is_dir() else others).append(entry.name)
        yield path, directories, others
        for name in directories:
            async for found in self.walk(posixpath.join(path, name)):
                yield found

    async def close(self) -> None:
        """Closes the client. The session ends when its files are closed too."""
        await self._close()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class File(_Awaited):
    """The calls at positions of :class:`braid.File`, awaited. It has no cursor: tasks could not
    share one.
    """

    def view(self, view: View | None = None, **strided: int) -> File:
        """The same open file through a view. Makes no call to a server."""
        return File(self._inner.view(view, **strided), self._threads)

    async def copy_from(
        self, source: File, offset: int = 0, to: int = 0, size: int | None = None
    ) -> int:
        """As :meth:`braid.File.copy_from`, from a file of this module."""
        return await self._run(self._inner.copy_from, source._inner, offset, to, size)

    async def close(self) -> None:
        """As :meth:`braid.File.close`."""
        await self._close()

    async def __aenter__(self) -> File:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()


for _name in _CLIENT_CALLS:
    setattr(Client, _name, _awaited(_name, _client.Client))
for _name in _FILE_CALLS:
    setattr(File, _name, _awaited(_name, _file.File))
for _name in _COLLECTIVE_CALLS:
    setattr(File, _name, _awaited_together(_name, _file.File))

"""What ``BraidFileSystem.open`` gives: Python's buffered files, with what fsspec's users look for on them."""

from __future__ import annotations

import io
import posixpath
import secrets
from typing import TYPE_CHECKING, Any

from ._client import BUFFER_BYTES_DEFAULT
from ._file import File

if TYPE_CHECKING:
    from .fs import BraidFileSystem


def open_buffered(
    fs: BraidFileSystem, path: str, mode: str, block_size: int | None, autocommit: bool, layout: dict[str, Any]
) -> Opened:
    """Opens a file for bytes; without ``autocommit`` what is written appears under its name when it is committed."""
    is_scratch = not autocommit and "r" not in mode
    if is_scratch and "a" in mode:
        raise ValueError("a transaction cannot append; try: fs.open(path, 'wb') with all of it")
    place = scratch_name(path) if is_scratch else path
    raw = fs._raw(place, mode, **layout)
    kind: Any = Random if raw.readable() and raw.writable() else Reader if raw.readable() else Writer
    opened: Opened = kind(raw, block_size if isinstance(block_size, int) else BUFFER_BYTES_DEFAULT)
    opened.fs, opened.path, opened.autocommit = fs, path, not is_scratch
    opened._scratch, opened._replaces = place, "x" not in mode
    return opened


def scratch_name(path: str) -> str:
    """A name beside ``path``, so that the rename at the end moves nothing."""
    directory, name = posixpath.split(path)
    return posixpath.join(directory, f".{name[:200]}.{secrets.token_hex(8)}.part")


class Opened:
    """What an open file of fsspec has beside Python's own."""

    fs: BraidFileSystem
    path: str
    autocommit: bool
    _scratch: str
    _replaces: bool

    @property
    def size(self) -> int:
        """How long the file is now, in bytes."""
        if self.writable():  # type: ignore[attr-defined]
            self.flush()  # type: ignore[attr-defined]
        raw: File = self.raw  # type: ignore[attr-defined]
        return raw.size()

    @property
    def full_name(self) -> str:
        return self.fs.unstrip_protocol(self.path)

    def info(self) -> dict[str, Any]:
        return self.fs.info(self.path)

    def commit(self) -> None:
        """Gives what a transaction wrote its name."""
        if self.autocommit:
            raise RuntimeError("can only commit what was opened in a transaction")
        self.close()  # type: ignore[attr-defined]
        self.fs.client.rename(self._scratch, self.path, replace=self._replaces)

    def discard(self) -> None:
        """Throws away what a transaction wrote."""
        if self.autocommit:
            raise RuntimeError("can only discard what was opened in a transaction")
        self.close()  # type: ignore[attr-defined]
        self.fs.client.remove(self._scratch)


class Reader(Opened, io.BufferedReader):
    """Open for reading."""

    def __reduce__(self) -> Any:
        return _reopen, (self.fs, self.path, self.tell())


class Writer(Opened, io.BufferedWriter):
    """Open for writing."""


class Random(Opened, io.BufferedRandom):
    """Open for both."""


def _reopen(fs: BraidFileSystem, path: str, position: int) -> Any:
    file = fs.open(path, "rb")
    file.seek(position)
    return file

"""An open file of the ``io.RawIOBase`` family, with calls at positions, views and lists."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable, Sequence
from typing import Any

from ._braid import Group, Handle, Stat, View
from ._group import as_group


class File(io.RawIOBase):
    """An open file, unbuffered: bytes pass between the I/O daemons and the caller's memory without
    a copy.

    Positions are bytes of its view's stream: of the file itself, unless :meth:`view` made it. Calls
    at positions and lists do not move the cursor. Many threads may use a file at the same time; no
    call holds the GIL while it waits.
    """

    def __init__(self, handle: Handle, name: Any, mode: str, view: View | None = None) -> None:
        self._handle = handle
        self.name = name
        self.mode = mode
        self._view = view
        self._readable, self._writable = "r" in mode or "+" in mode, mode[0] != "r" or "+" in mode
        self._appends = mode[0] == "a"
        if self._appends:
            handle.seek(0, io.SEEK_END)

    # The io.RawIOBase family.

    def readable(self) -> bool:
        self._check()
        return self._readable

    def writable(self) -> bool:
        self._check()
        return self._writable

    def seekable(self) -> bool:
        self._check()
        return True

    def readinto(self, buffer: Any) -> int:
        """Reads at the cursor into a buffer. Returns the number of bytes, fewer than asked for only
        at the end.
        """
        self._check("read")
        return self._handle.readinto(buffer)

    def read(self, size: int | None = -1) -> bytes:
        """Reads ``size`` bytes at the cursor, fewer only at the end; without ``size``, all the
        rest.
        """
        self._check("read")
        if size is None or size < 0:
            return self.readall()
        return self._handle.read(size)

    def readall(self) -> bytes:
        """Reads everything from the cursor to the current end of the file."""
        self._check("read")
        left = self._handle.size() - self.tell()
        return self._handle.read(left) if left > 0 else b""

    def write(self, buffer: Any) -> int:
        """Writes all of a buffer at the cursor, or, in append mode, at the current end. Returns the
        number of bytes.
        """
        self._check("write")
        if self._appends:
            self._handle.seek(0, io.SEEK_END)
        return self._handle.write(buffer)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Moves the cursor; positions past the end are allowed."""
        self._check()
        return self._handle.seek(offset, whence)

    def tell(self) -> int:
        self._check()
        return self._handle.seek(0, io.SEEK_CUR)

    def truncate(self, size: int | None = None) -> int:
        """Truncates the file to ``size`` bytes, or extends it with zeros; without ``size``, at the
        cursor.
        """
        self._check("write")
        if self._view is not None:
            raise io.UnsupportedOperation("cannot truncate through a view; try: the file itself")
        size = self.tell() if size is None else size
        self._handle.truncate(size)
        return size

    def close(self) -> None:
        """Closes this handle; the last handle of the file closes the file. Raises ``OSError`` when
        writes that were never synced are known to be lost.
        """
        if not self.closed:
            try:
                super().close()
            finally:
                self._handle.close()

    # At positions.

    def read_at(self, size: int, position: int) -> bytes:
        """Reads at a position: ``size`` bytes, fewer only at the end."""
        self._check("read")
        return self._handle.read_at(size, position)

    def readinto_at(self, buffer: Any, position: int) -> int:
        """Reads at a position into a buffer. Returns the number of bytes."""
        self._check("read")
        return self._handle.readinto_at(buffer, position)

    def readv_at(self, buffers: Sequence[Any], position: int) -> int:
        """Reads at a position into several buffers, one after the other. Returns the number of
        bytes.
        """
        self._check("read")
        return self._handle.readv_at(buffers, position)

    def write_at(self, buffer: Any, position: int) -> int:
        """Writes all of a buffer at a position. Returns the number of bytes."""
        self._check("write")
        return self._handle.write_at(buffer, position)

    def writev_at(self, buffers: Sequence[Any], position: int) -> int:
        """Writes several buffers, one after the other, at a position. Returns their length."""
        self._check("write")
        return self._handle.writev_at(buffers, position)

    # Lists: offsets in the file, whatever the view.

    def read_ranges(self, ranges: Iterable[tuple[int, int]]) -> list[bytes]:
        """Reads ranges (offset, size), in any order, overlapping or not, with one request to each
        I/O daemon. Returns the bytes of each, in the order of ``ranges``; fewer than asked for only
        at the end.
        """
        self._check("read")
        return self._handle.read_ranges(list(ranges))

    def readinto_ranges(self, ranges: Iterable[tuple[int, Any]]) -> list[int]:
        """Reads ranges (offset, buffer) into the buffers. Returns the number of bytes of each."""
        self._check("read")
        return self._handle.readinto_ranges(list(ranges))

    def write_ranges(self, ranges: Iterable[tuple[int, Any]]) -> int:
        """Writes ranges (offset, buffer), in any order. Where they overlap, the file gets the bytes
        of the later one. Returns the total number of bytes.
        """
        self._check("write")
        return self._handle.write_ranges(list(ranges))

    # Collective calls.

    def read_all_at(self, group: Any, size: int, position: int, *, mode: str = "auto") -> bytes:
        """Reads at a position of this task's view, together with all tasks of a group.

        Each task gets the same bytes as from :meth:`read_at`. But the I/O daemons read each byte
        once, in the order of their disks: where that is faster (``mode`` ``auto``), always
        (``server``) or never (``independent``).

        ``group`` is a :class:`Group`, a communicator of mpi4py, or an object with ``rank``,
        ``size`` and ``all_gather(mine, timeout)``. Each task calls it, on a file that it opened
        itself; a task without bytes passes ``size`` 0. The call succeeds in all tasks or fails in
        all. A task with a closed file or wrong arguments notifies the others.
        """
        return self._handle.read_all_at(self._taking_part(group, "read"), size, position, mode)

    def readinto_all_at(self, group: Any, buffer: Any, position: int, *, mode: str = "auto") -> int:
        """As :meth:`read_all_at`, into a buffer. Returns the number of bytes."""
        return self._handle.readinto_all_at(
            self._taking_part(group, "read"), buffer, position, mode
        )

    def write_all_at(
        self,
        group: Any,
        buffer: Any,
        position: int,
        *,
        mode: str = "auto",
        overlap: str = "highest-rank",
    ) -> int:
        """Writes all of a buffer at a position of this task's view, together with all tasks of a
        group; see :meth:`read_all_at`.

        Where tasks write the same bytes, the file gets those of the highest rank; with
        ``overlap="refuse"`` the call fails and writes nothing. Returns the number of bytes.
        """
        return self._handle.write_all_at(
            self._taking_part(group, "write"), buffer, position, mode, overlap
        )

    def _taking_part(self, group: Any, doing: str) -> Group:
        """The group for a collective call on this file. If this task cannot take part, it notifies
        the others.
        """
        tasks = as_group(group)
        try:
            self._check(doing)
        except ValueError as error:
            # This task raises its own error, whether the others received it or not.
            with contextlib.suppress(OSError, ValueError):
                tasks.refuse_all(str(error))
            raise
        return tasks

    # Views.

    def view(
        self,
        view: View | None = None,
        *,
        offset: int | None = None,
        group: int | None = None,
        stride: int | None = None,
    ) -> File:
        """The same open file through a view, with a cursor of its own at 0. The view is a
        :class:`View`, or ``group`` bytes in every ``stride`` from ``offset``. A view of a view is a
        view of the file.
        """
        self._check()
        if view is None:
            if group is None or stride is None:
                raise TypeError("view() takes a View, or offset, group and stride")
            view = View.strided(offset or 0, group, stride)
        elif (offset, group, stride) != (None, None, None):
            raise TypeError("view() takes a View, or offset, group and stride, not both")
        mode = ("rb+" if self._writable else "rb") if self._readable else "wb"
        return File(self._handle.view(view), self.name, mode, view)

    def file_offset(self, position: int) -> int:
        """The file offset of a position of the view's stream."""
        self._check()
        return self._handle.file_offset(position)

    def position(self, offset: int) -> int | None:
        """The position of a file offset in the view's stream; ``None`` if the view does not show
        it.
        """
        self._check()
        return self._handle.position(offset)

    # The whole file.

    def size(self) -> int:
        """The current size, in bytes of the view's stream. Asks only the I/O daemons."""
        self._check()
        return self._handle.size()

    def stat(self) -> Stat:
        """The current attributes."""
        self._check()
        return self._handle.stat()

    def sync(self) -> None:
        """Forces all written data to disk: data, size and name."""
        self._check()
        self._handle.sync()

    def allocate(self, offset: int, size: int, *, keep_size: bool = False) -> None:
        """Reserves disk space for a range; extends the file to the end of the range unless
        ``keep_size``.
        """
        self._check("write")
        self._handle.allocate(offset, size, keep_size)

    def punch_hole(self, offset: int, size: int) -> None:
        """Makes a range of the file read as zeros. The size does not change."""
        self._check("write")
        self._handle.punch_hole(offset, size)

    def copy_from(self, source: File, offset: int = 0, to: int = 0, size: int | None = None) -> int:
        """Copies bytes of another file and returns their number: from ``offset`` of ``source`` to
        ``to`` of this file, up to the end of ``source`` or ``size`` bytes. The I/O daemons copy if
        both files have the same placement.
        """
        self._check("write")
        left, done = 2**63 - 1 - max(offset, to) if size is None else size, 0
        while left > 0:
            copied = self._handle.copy_from(source._handle, offset + done, to + done, left)
            if copied == 0:
                break
            done, left = done + copied, left - copied
        return done

    def _check(self, doing: str | None = None) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")
        if doing == "read" and not self._readable or doing == "write" and not self._writable:
            raise io.UnsupportedOperation(f"file is not open to {doing}")

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"mode={self.mode!r}"
        seen = "" if self._view is None else f" through {self._view!r}"
        return f"<braid.File {self.name!r} {state}{seen}>"

"""BraidFS: a parallel file system, for Python programs.

>>> import braid
>>> client = braid.connect()                                  # doctest: +SKIP
>>> with client.open("/results", "wb") as file:               # doctest: +SKIP
...     file.write(b"42")
"""

from ._braid import DirEntry, Group, Pattern, Stat, View, __version__
from ._client import Client, connect
from ._file import File

__all__ = [
    "Client",
    "DirEntry",
    "File",
    "Group",
    "Pattern",
    "Stat",
    "View",
    "__version__",
    "connect",
]

"""Converts the task groups of a program to groups of the library."""

from __future__ import annotations

from typing import Any

from ._braid import Group


def as_group(group: Any) -> Group:
    """Takes a :class:`Group`, a communicator of mpi4py, or an object with ``rank``, ``size`` and
    ``all_gather(mine, timeout)``.

    The MPI library decides how long a communicator waits.
    """
    if isinstance(group, Group):
        return group
    if hasattr(group, "Get_rank"):
        return Group.calling(
            group.Get_rank(), group.Get_size(), lambda mine, _: group.allgather(mine)
        )
    if hasattr(group, "all_gather"):
        return Group.calling(group.rank, group.size, group.all_gather)
    raise TypeError(
        f"{type(group).__name__} is not a group; try: braid.Group, a communicator of mpi4py, "
        "or an object with rank, size and all_gather(mine, timeout)"
    )

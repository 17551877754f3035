"""What a program has for a group of tasks, as the library takes it."""

from __future__ import annotations

from typing import Any

from ._braid import Group


def as_group(group: Any) -> Group:
    """A :class:`Group` as it is; a communicator of mpi4py; anything with ``rank``, ``size`` and
    ``all_gather(mine, timeout)``.

    How long a communicator waits is up to its MPI.
    """
    if isinstance(group, Group):
        return group
    if hasattr(group, "Get_rank"):
        return Group.calling(group.Get_rank(), group.Get_size(), lambda mine, _: group.allgather(mine))
    if hasattr(group, "all_gather"):
        return Group.calling(group.rank, group.size, group.all_gather)
    raise TypeError(
        f"{type(group).__name__} is no group; try: braid.Group, a communicator of mpi4py, or an object with rank, size "
        "and all_gather(mine, timeout)"
    )

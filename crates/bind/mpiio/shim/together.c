/* Collective calls that the I/O daemons carry out: when, and how the ranks meet for it. docs/adr/0015-collective-requests.md
 *
 * 1. Whether the ranks meet follows from what all of them agreed on when the file was opened, its view or its hints were set: it is the same
 *    on every rank, whatever becomes of a rank's own part.
 * 2. A rank that has failed before it meets the others takes part with its failure: nobody waits for it. */
#include "shim.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

enum {
    /* The engine's own rule: daemons save work where pieces are shorter than a page (ADR 0015, Numbers). */
    SHORT_BYTES = 4096,
    /* Entries of all ranks' lists: half of what one message to a daemon holds. More go as each rank's own. */
    LISTED_MAX = 16384,
};

static const char *const NAMES[] = {"auto", "server", "list"};

int way_of(const char *name) {
    for (int way = 0; way < 3; way++)
        if (!strcmp(name, NAMES[way])) return way;
    return -1;
}

const char *name_of_way(enum way way) { return NAMES[way]; }

void agree_on_way(struct file *file, int wanted) {
    /* The least of each; of what is negated the most. A hint that not all ranks give is none. */
    long long mine[4] = {wanted, -wanted, file->shown.piece_bytes, -file->shown.entries}, all[4];
    MPI_Allreduce(mine, all, 4, MPI_LONG_LONG, MPI_MIN, file->comm);
    if (all[0] >= 0 && all[0] == -all[1]) file->way = (enum way)all[0];
    file->pieces_are_short = all[2] < SHORT_BYTES;
    file->lists_are_long = -all[3] > LISTED_MAX / file->size;
}

int goes_together(const struct file *file, enum direction direction) {
    int not_opened_for_it = file->amode & (direction == READING ? MPI_MODE_WRONLY : MPI_MODE_RDONLY);
    if (file->size == 1 || file->atomic || file->amode & MPI_MODE_SEQUENTIAL || not_opened_for_it) return 0;
    if (file->way == BY_LIST || file->lists_are_long) return 0;
    return file->way == BY_SERVER || file->pieces_are_short;
}

int all_gather(void *context, const void *mine, size_t bytes, void *all) {
    struct file *file = context;
    if (bytes > INT_MAX) return MPI_ERR_COUNT;
    return MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, file->comm);
}

int move_together(struct file *file, enum direction direction, int64_t at, char *memory, int64_t bytes, int64_t *moved) {
    /* A view that shows nothing is a rank without bytes. */
    int seen = file->seen < 0 ? file->whole : file->seen;
    int how = file->way == BY_SERVER ? BRAID_COLLECTIVE_SERVER : BRAID_COLLECTIVE_AUTO;
    ssize_t result = direction == READING ? braid_pread_all(seen, file->group, memory, (size_t)bytes, at, how)
                                          : braid_pwrite_all(seen, file->group, memory, (size_t)bytes, at, how);
    if (result < 0) return error_of_errno(file->path);
    *moved = result;
    return MPI_SUCCESS;
}

void refuse_together(struct file *file, int code) {
    char why[MPI_MAX_ERROR_STRING + 1] = "";
    int length;
    MPI_Error_string(code, why, &length);
    /* What this rank says itself is its own failure, whether the others heard of it or not. */
    braid_refuse_all(file->group, EINVAL, why);
}

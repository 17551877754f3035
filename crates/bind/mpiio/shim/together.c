/* Collective calls that the I/O daemons carry out: when, and how the ranks meet for it. docs/adr/0015-collective-requests.md
 *
 * 1. Whether the ranks meet follows from what all of them agreed on when the file was opened, its view or its hints were set, and from what
 *    they told each other in the calls since (rule.h): it is the same on every rank, whatever becomes of a rank's own part.
 * 2. A rank that has failed before it meets the others takes part with its failure: nobody waits for it.
 * 3. With `auto` ranks write without meeting only where no two of them see the same byte: of what they write together the highest rank's stays. */
#include "shim.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    /* The engine's own rule, at most: daemons save work where pieces are shorter (ADR 0015, Numbers). */
    SHORT_READ_BYTES = 4096,
    SHORT_WRITTEN_BYTES = 16 << 10,
    /* Entries of all ranks' lists: half of what one message to a daemon holds. More go as each rank's own. */
    LISTED_MAX = 16384,
    /* Pieces in one copy of all ranks' views that are looked at for an overlap: some 10 ms. */
    LOOKED_AT_MAX = 1 << 18,
};

static const char *const NAMES[] = {"auto", "server", "list"};

int way_of(const char *name) {
    for (int way = 0; way < 3; way++)
        if (!strcmp(name, NAMES[way])) return way;
    return -1;
}

const char *name_of_way(enum way way) { return NAMES[way]; }

void forget_costs(struct file *file) {
    rule_reset(&file->rules[READING]);
    rule_reset(&file->rules[WRITING]);
}

/* What ranks tell each other of their views; each is the least of all ranks'. Views that differ in the last alone cost as much. */
enum agreed { WANTED, WANTED_MOST, PIECE, ENTRIES_MOST, EXTENT, EXTENT_MOST, PIECES_MOST, ONCE, FIRST_MOST, AGREED };
_Static_assert((int)AGREED == (int)VIEWS_AGREED, "as many as a file keeps");

void agree_on_way(struct file *file, int wanted) {
    const struct shown *shown = &file->shown;
    /* What is negated is the most. A view that shows nothing overlaps with none, whatever its extent. */
    int64_t least = shown->view ? shown->extent : INT64_MAX, most = shown->view ? shown->extent : 0;
    long long mine[AGREED] = {wanted, -wanted, shown->piece_bytes, -shown->entries, least, -most, -(shown->bytes / shown->piece_bytes),
                              shown->once, -shown->first};
    long long all[AGREED];
    MPI_Allreduce(mine, all, AGREED, MPI_LONG_LONG, MPI_MIN, file->comm);
    /* A program that moves its view before each call goes on with what it has learned. */
    int is_alike = !memcmp(all, file->agreed, FIRST_MOST * sizeof *all);
    memcpy(file->agreed, all, sizeof all);
    /* A hint that not all ranks give is none. */
    if (all[WANTED] >= 0 && all[WANTED] == -all[WANTED_MOST]) file->way = (enum way)all[WANTED];
    file->piece_bytes = all[PIECE];
    file->lists_are_long = -all[ENTRIES_MOST] > LISTED_MAX / file->size;
    int can_be_looked_at = all[EXTENT] == -all[EXTENT_MOST] && all[ONCE] == INT64_MAX && -all[PIECES_MOST] <= LOOKED_AT_MAX / file->size;
    file->overlap = can_be_looked_at ? NOT_LOOKED_AT : PERHAPS;
    file->all_begun = -all[FIRST_MOST];
    if (!is_alike) forget_costs(file);
}

/* Whether the rule of `auto` says who makes calls; else the hint does. */
static int learns(const struct file *file, enum direction direction) {
    return file->way == BY_RULE && !(direction == WRITING && file->overlap == PERHAPS);
}

/* Whether the daemons may carry calls out at all. */
static int may_go_together(const struct file *file, enum direction direction) {
    int not_opened_for_it = file->amode & (direction == READING ? MPI_MODE_WRONLY : MPI_MODE_RDONLY);
    if (file->size == 1 || file->atomic || file->amode & MPI_MODE_SEQUENTIAL || not_opened_for_it) return 0;
    if (file->way == BY_LIST || file->lists_are_long) return 0;
    return file->way == BY_SERVER || file->piece_bytes < (direction == READING ? SHORT_READ_BYTES : SHORT_WRITTEN_BYTES);
}

/* Of all ranks, once for a view: whether two of them see one byte. All copies after where the last view begins are alike, and so are the
 * ranks' as their extents are: one of each is enough. */
static enum overlap look_at_overlap(struct file *file) {
    int seen = file->seen < 0 ? file->whole : file->seen;
    int64_t at = bytes_below(file, file->all_begun);
    return braid_overlap_all(seen, file->group, (size_t)file->shown.bytes, at) == 0 ? APART : PERHAPS;
}

enum who who_calls(struct file *file, enum direction direction, int64_t bytes) {
    if (!may_go_together(file, direction)) return ALONE;
    struct rule *rule = learns(file, direction) ? &file->rules[direction] : NULL;
    enum who who = rule ? rule_next(rule) : TOGETHER;
    if (who == ALONE && direction == WRITING && file->overlap == NOT_LOOKED_AT) {
        file->overlap = look_at_overlap(file);
        if (file->overlap == PERHAPS) who = TOGETHER;
    }
    file->hears = who == TOGETHER && learns(file, direction) ? rule : NULL;
    file->asked = bytes;
    return who;
}

int64_t nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void learn_from(struct file *file, enum direction direction, enum who who, int64_t bytes, int64_t took) {
    if (may_go_together(file, direction) && learns(file, direction)) rule_spend(&file->rules[direction], who, bytes, took);
}

static int gather(struct file *file, const void *mine, size_t bytes, void *all) {
    if (bytes > INT_MAX) return MPI_ERR_COUNT;
    return MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, file->comm);
}

/* With what the rule hears after each rank's bytes. */
static int gather_and_hear(struct file *file, const char *mine, size_t bytes, char *all) {
    size_t each = bytes + sizeof(struct told), ranks = (size_t)file->size;
    char *given = malloc(each * (ranks + 1));
    struct told *told = malloc(ranks * sizeof *told);
    if (!given || !told) abort();
    char *taken = given + each;
    told[0] = rule_tell(file->hears, file->asked);
    memcpy(given, mine, bytes);
    memcpy(given + bytes, told, sizeof *told);
    int code = gather(file, given, each, taken);
    for (size_t rank = 0; code == MPI_SUCCESS && rank < ranks; rank++) {
        memcpy(all + rank * bytes, taken + rank * each, bytes);
        memcpy(told + rank, taken + rank * each + bytes, sizeof *told);
    }
    if (code == MPI_SUCCESS) rule_hear(file->hears, told, file->size);
    free(told);
    free(given);
    return code;
}

int all_gather(void *context, const void *mine, size_t bytes, void *all) {
    struct file *file = context;
    if (!file->hears) return gather(file, mine, bytes, all);
    int code = gather_and_hear(file, mine, bytes, all);
    /* Once a call: in its first exchange. */
    file->hears = NULL;
    return code;
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

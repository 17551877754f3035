/* Collective calls that the I/O daemons carry out: when the ranks make one, and how they exchange.
 * docs/adr/0015-collective-requests.md
 *
 * 1. Whether the ranks exchange depends only on what all agreed on when the file was opened, its
 * view or
 *    its hints were set, and on the exchanged reports since (rule.h). So it is the same on every
 *    rank, whatever happens to a rank's own part.
 * 2. A rank that fails before an exchange takes part in it with its failure: no rank waits for it.
 * 3. With `auto`, ranks write without an exchange only where no two of them see the same byte: in a
 * call    together, the bytes of the highest rank win. */
#include "shim.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    /* The engine's own limit: the daemons save work where pieces are shorter (ADR 0015,
     * Numbers). */
    SHORT_READ_BYTES = 4096,
    SHORT_WRITTEN_BYTES = 16 << 10,
    /* Entries of all ranks' lists: half of what one message to a daemon holds. With more, each rank
     * makes its own call. */
    LISTED_MAX = 16384,
    /* Pieces in one copy of all ranks' views that are checked for an overlap: about 10 ms. */
    POLLED_MAX = 1 << 18,
};

static const char *const NAMES[] = {"auto", "server", "list"};

int mode_of(const char *name) {
    for (int mode = 0; mode < 3; mode++)
        if (!strcmp(name, NAMES[mode])) return mode;
    return -1;
}

const char *name_of_mode(enum collective_mode mode) { return NAMES[mode]; }

void forget_costs(struct file *file) {
    rule_reset(&file->rules[READING]);
    rule_reset(&file->rules[WRITING]);
}

/* What ranks exchange about their views; each value is the minimum of all ranks. Views that differ
 * only in the last value have the same cost. */
enum agreed {
    WANTED,
    WANTED_MOST,
    PIECE,
    ENTRIES_MOST,
    EXTENT,
    EXTENT_MOST,
    PIECES_MOST,
    ONCE,
    FIRST_MOST,
    AGREED
};
_Static_assert((int)AGREED == (int)VIEWS_AGREED, "as many as a file stores");

void agree_on_mode(struct file *file, int wanted) {
    const struct shown *shown = &file->shown;
    /* Negated values give the maximum. A view that shows nothing overlaps with none, whatever
     * its extent. */
    int64_t least = shown->view ? shown->extent : INT64_MAX, most = shown->view ? shown->extent : 0;
    long long mine[AGREED] = {wanted,
                              -wanted,
                              shown->piece_bytes,
                              -shown->entries,
                              least,
                              -most,
                              -(shown->bytes / shown->piece_bytes),
                              shown->once,
                              -shown->first};
    long long all[AGREED];
    MPI_Allreduce(mine, all, AGREED, MPI_LONG_LONG, MPI_MIN, file->comm);
    /* A program that moves its view before each call keeps its measured costs. */
    int is_alike = !memcmp(all, file->agreed, FIRST_MOST * sizeof *all);
    memcpy(file->agreed, all, sizeof all);
    /* A hint that not all ranks give is ignored. */
    if (all[WANTED] >= 0 && all[WANTED] == -all[WANTED_MOST])
        file->mode = (enum collective_mode)all[WANTED];
    file->piece_bytes = all[PIECE];
    file->lists_are_long = -all[ENTRIES_MOST] > LISTED_MAX / file->size;
    int can_be_looked_at = all[EXTENT] == -all[EXTENT_MOST] && all[ONCE] == INT64_MAX &&
                           -all[PIECES_MOST] <= POLLED_MAX / file->size;
    file->overlap = can_be_looked_at ? NOT_CHECKED : POSSIBLE;
    file->all_begun = -all[FIRST_MOST];
    if (!is_alike) forget_costs(file);
}

/* Whether the rule of `auto` chooses the method; otherwise the hint does. */
static int learns(const struct file *file, enum direction direction) {
    return file->mode == BY_RULE && !(direction == WRITING && file->overlap == POSSIBLE);
}

/* Whether the daemons may carry calls out at all. */
static int may_go_together(const struct file *file, enum direction direction) {
    int not_opened_for_it =
        file->amode & (direction == READING ? MPI_MODE_WRONLY : MPI_MODE_RDONLY);
    if (file->size == 1 || file->atomic || file->amode & MPI_MODE_SEQUENTIAL || not_opened_for_it)
        return 0;
    if (file->mode == BY_LIST || file->lists_are_long) return 0;
    return file->mode == BY_SERVER ||
           file->piece_bytes < (direction == READING ? SHORT_READ_BYTES : SHORT_WRITTEN_BYTES);
}

/* Checks on all ranks, once for a view, whether two of them see the same byte. From the start of
 * the last view on, each copy equals the one before, and so do the ranks if their extents are
 * equal: it is enough to check one copy of each. */
static enum overlap look_at_overlap(struct file *file) {
    int seen = file->seen < 0 ? file->whole : file->seen;
    int64_t at = bytes_below(file, file->all_begun);
    return braid_overlap_all(seen, file->group, (size_t)file->shown.bytes, at) == 0 ? DISJOINT
                                                                                    : POSSIBLE;
}

enum method choose_method(struct file *file, enum direction direction, int64_t bytes) {
    if (!may_go_together(file, direction)) return ALONE;
    struct rule *rule = learns(file, direction) ? &file->rules[direction] : NULL;
    enum method method = rule ? rule_next(rule) : TOGETHER;
    if (method == ALONE && direction == WRITING && file->overlap == NOT_CHECKED) {
        file->overlap = look_at_overlap(file);
        if (file->overlap == POSSIBLE) method = TOGETHER;
    }
    file->updated_rule = method == TOGETHER && learns(file, direction) ? rule : NULL;
    file->asked = bytes;
    return method;
}

int64_t nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void record_cost(struct file *file, enum direction direction, enum method method, int64_t bytes,
                 int64_t took) {
    if (may_go_together(file, direction) && learns(file, direction))
        rule_measure(&file->rules[direction], method, bytes, took);
}

static int gather(struct file *file, const void *mine, size_t bytes, void *all) {
    if (bytes > INT_MAX) return MPI_ERR_COUNT;
    return MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, file->comm);
}

/* Sends the report for the rule after each rank's bytes. */
static int gather_and_hear(struct file *file, const char *mine, size_t bytes, char *all) {
    size_t each = bytes + sizeof(struct report), ranks = (size_t)file->size;
    char *given = malloc(each * (ranks + 1));
    struct report *reports = malloc(ranks * sizeof *reports);
    if (!given || !reports) abort();
    char *taken = given + each;
    reports[0] = rule_report(file->updated_rule, file->asked);
    memcpy(given, mine, bytes);
    memcpy(given + bytes, reports, sizeof *reports);
    int code = gather(file, given, each, taken);
    for (size_t rank = 0; code == MPI_SUCCESS && rank < ranks; rank++) {
        memcpy(all + rank * bytes, taken + rank * each, bytes);
        memcpy(reports + rank, taken + rank * each + bytes, sizeof *reports);
    }
    if (code == MPI_SUCCESS) rule_update(file->updated_rule, reports, file->size);
    free(reports);
    free(given);
    return code;
}

int all_gather(void *context, const void *mine, size_t bytes, void *all) {
    struct file *file = context;
    if (!file->updated_rule) return gather(file, mine, bytes, all);
    int code = gather_and_hear(file, mine, bytes, all);
    /* Once per call: in its first exchange. */
    file->updated_rule = NULL;
    return code;
}

int move_together(struct file *file, enum direction direction, int64_t at, char *memory,
                  int64_t bytes, int64_t *moved) {
    /* A rank whose view shows nothing has no bytes. */
    int seen = file->seen < 0 ? file->whole : file->seen;
    int how = file->mode == BY_SERVER ? BRAID_COLLECTIVE_SERVER : BRAID_COLLECTIVE_AUTO;
    ssize_t result = direction == READING
                         ? braid_pread_all(seen, file->group, memory, (size_t)bytes, at, how)
                         : braid_pwrite_all(seen, file->group, memory, (size_t)bytes, at, how);
    if (result < 0) return error_of_errno(file->path);
    *moved = result;
    return MPI_SUCCESS;
}

void refuse_together(struct file *file, int code) {
    char why[MPI_MAX_ERROR_STRING + 1] = "";
    int length;
    MPI_Error_string(code, why, &length);
    /* This rank reports its own failure, whether the others received it or not. */
    braid_refuse_all(file->group, EINVAL, why);
}

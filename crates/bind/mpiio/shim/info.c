/* Hints: read at open and later; MPI_File_get_info returns them with the values in force.
 * MPI-4.1 14.2.8. */
#include "shim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The hints that are stored and returned. The first three decide the layout of a new file. The
 * others are returned as they were given, and have no effect, since no rank transfers bytes of
 * another. `braid_collective` selects the collective method. Other hints are ignored, as MPI
 * allows, and not returned; docs/mpi-io.md lists the reserved hints of the standard. */
static const char *const KNOWN[] = {
    "striping_factor", "striping_unit",  "start_iodevice", "cb_nodes",       "cb_buffer_size",
    "romio_cb_read",   "romio_cb_write", "romio_ds_read",  "romio_ds_write", "romio_no_indep_rw"};

static int hint(MPI_Info info, const char *key, char value[MPI_MAX_INFO_VAL + 1]) {
    int found = 0;
    if (info != MPI_INFO_NULL) MPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &found);
    return found;
}

static long long number(MPI_Info info, const char *key) {
    char value[MPI_MAX_INFO_VAL + 1], *end;
    if (!hint(info, key, value)) return -1;
    long long found = strtoll(value, &end, 10);
    return *value && !*end && found >= 0 ? found : -1; /* a wrong hint is ignored */
}

void layout_hints(MPI_Info info, struct braid_layout *layout) {
    braid_layout_init(layout);
    long long factor = number(info, "striping_factor"), unit = number(info, "striping_unit"),
              first = number(info, "start_iodevice");
    /* A hint that the cluster cannot follow is no error: the file gets the default layout. */
    if (factor > 0 && factor < 4096) layout->iod_count = (uint32_t)factor;
    if (unit >= 4096 && unit <= 1 << 30) layout->stripe_bytes = (uint64_t)unit;
    if (first >= 0 && first < 4096) layout->first_iod = (int32_t)first;
}

/* MPI-4.1 14.2.8 leaves the format to the implementation: an octal number as in chmod(1), before
 * the umask; 0666 without a valid hint. */
static int permissions(MPI_Info info, char value[MPI_MAX_INFO_VAL + 1], mode_t *mode) {
    char *end;
    *mode = 0666;
    if (!hint(info, "file_perm", value) || *value < '0' || *value > '7') return 0;
    unsigned long wanted = strtoul(value, &end, 8);
    if (*end || wanted > 0777) return 0;
    *mode = (mode_t)wanted;
    return 1;
}

mode_t permissions_hint(MPI_Info info) {
    char value[MPI_MAX_INFO_VAL + 1];
    mode_t mode;
    permissions(info, value, &mode);
    return mode;
}

/* Returned as it was given, not as the file has it. Otherwise a program that copies the hints of a
 * read-only file to a new file would create a file that it may not write. */
void take_permissions(struct file *file, MPI_Info info) {
    char value[MPI_MAX_INFO_VAL + 1];
    mode_t mode;
    if (file->amode & MPI_MODE_CREATE && permissions(info, value, &mode))
        MPI_Info_set(file->info, "file_perm", value);
}

void take_nonblocking(struct file *file, const char *how) {
    if (how && !strcmp(how, "at_once")) file->complete_at_start = 1;
    if (how && !strcmp(how, "background")) file->complete_at_start = 0;
    if (!can_be_asked()) file->complete_at_start = 1;
}

void take_hints(struct file *file, MPI_Info info, const char *mode) {
    char value[MPI_MAX_INFO_VAL + 1];
    /* The first three are facts of an existing file. */
    for (size_t at = 3; at < sizeof KNOWN / sizeof *KNOWN; at++)
        if (hint(info, KNOWN[at], value)) MPI_Info_set(file->info, KNOWN[at], value);
    if (hint(info, "braid_nonblocking", value)) take_nonblocking(file, value);
    if (hint(info, "braid_collective", value)) mode = value;
    agree_on_mode(file, mode ? mode_of(mode) : -1);
}

DEFINE(set_info, MPI_File handle, MPI_Info info) {
    struct file *file = ours(handle);
    if (!file) return REAL(set_info)(handle, info);
    take_hints(file, info, NULL);
    return MPI_SUCCESS;
}

DEFINE(get_info, MPI_File handle, MPI_Info *info) {
    struct file *file = ours(handle);
    if (!file) return REAL(get_info)(handle, info);
    struct braid_layout layout;
    if (braid_layout_get(file->whole, &layout) < 0) return failed(file, error_of_errno(file->path));
    MPI_Info_dup(file->info, info);
    char text[32];
    snprintf(text, sizeof text, "%u", layout.iod_count);
    MPI_Info_set(*info, "striping_factor", text);
    if (layout.stripe_bytes) {
        snprintf(text, sizeof text, "%llu", (unsigned long long)layout.stripe_bytes);
        MPI_Info_set(*info, "striping_unit", text);
    }
    if (layout.first_iod >= 0) {
        snprintf(text, sizeof text, "%d", layout.first_iod);
        MPI_Info_set(*info, "start_iodevice", text);
    }
    MPI_Info_set(*info, "braid_collective", name_of_mode(file->mode));
    MPI_Info_set(*info, "braid_nonblocking", file->complete_at_start ? "at_once" : "background");
    return MPI_SUCCESS;
}

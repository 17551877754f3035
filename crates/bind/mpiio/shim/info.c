/* Hints: taken at open and later, told by MPI_File_get_info with what is in force. MPI-4.1 14.2.8. */
#include "shim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is kept and told. The first three decide where a new file lies; the others are told as they were given, and change nothing
 * since no rank moves another's bytes. Who carries collective calls out is `braid_collective`. What is not here is ignored, as MPI
 * allows, and not told; docs/mpi-io.md lists what the standard reserves of it. */
static const char *const KNOWN[] = {"striping_factor", "striping_unit", "start_iodevice", "cb_nodes", "cb_buffer_size",
                                    "romio_cb_read", "romio_cb_write", "romio_ds_read", "romio_ds_write", "romio_no_indep_rw"};

static int hint(MPI_Info info, const char *key, char value[MPI_MAX_INFO_VAL + 1]) {
    int found = 0;
    if (info != MPI_INFO_NULL) MPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &found);
    return found;
}

static long long number(MPI_Info info, const char *key) {
    char value[MPI_MAX_INFO_VAL + 1], *end;
    if (!hint(info, key, value)) return -1;
    long long found = strtoll(value, &end, 10);
    return *value && !*end && found >= 0 ? found : -1; /* a hint that makes no sense is none */
}

void layout_hints(MPI_Info info, struct braid_layout *layout) {
    braid_layout_init(layout);
    long long factor = number(info, "striping_factor"), unit = number(info, "striping_unit"), first = number(info, "start_iodevice");
    /* What the cluster does not have is a wish that is not fulfilled, and no error: the file lies as usual then. */
    if (factor > 0 && factor < 4096) layout->iod_count = (uint32_t)factor;
    if (unit >= 4096 && unit <= 1 << 30) layout->stripe_bytes = (uint64_t)unit;
    if (first >= 0 && first < 4096) layout->first_iod = (int32_t)first;
}

/* MPI-4.1 14.2.8 leaves the form to us: an octal number as chmod(1) has it, before the umask; 0666 where the hint is none. */
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

/* Told as it was given, and not as the file has it: a program that hands the hints of a file that it may only read on to a file that it
 * makes would get one that it may not write. */
void take_permissions(struct file *file, MPI_Info info) {
    char value[MPI_MAX_INFO_VAL + 1];
    mode_t mode;
    if (file->amode & MPI_MODE_CREATE && permissions(info, value, &mode)) MPI_Info_set(file->info, "file_perm", value);
}

void take_nonblocking(struct file *file, const char *how) {
    if (how && !strcmp(how, "at_once")) file->at_once = 1;
    if (how && !strcmp(how, "background")) file->at_once = 0;
    if (!can_be_asked()) file->at_once = 1;
}

void take_hints(struct file *file, MPI_Info info, const char *way) {
    char value[MPI_MAX_INFO_VAL + 1];
    /* The first three are facts of a file that exists. */
    for (size_t at = 3; at < sizeof KNOWN / sizeof *KNOWN; at++)
        if (hint(info, KNOWN[at], value)) MPI_Info_set(file->info, KNOWN[at], value);
    if (hint(info, "braid_nonblocking", value)) take_nonblocking(file, value);
    if (hint(info, "braid_collective", value)) way = value;
    agree_on_way(file, way ? way_of(way) : -1);
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
    MPI_Info_set(*info, "braid_collective", name_of_way(file->way));
    MPI_Info_set(*info, "braid_nonblocking", file->at_once ? "at_once" : "background");
    return MPI_SUCCESS;
}

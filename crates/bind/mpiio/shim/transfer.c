/* One read or write at a position of a file's view, with memory of any datatype. */
#include "shim.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Maximum bytes of one call of MPI_Pack or MPI_Unpack: their counts are ints. */
enum { PACKED_MAX = 1 << 30 };

int bytes_of(struct file *file, MPI_Count count, MPI_Datatype type, int64_t *bytes) {
    MPI_Count each;
    if (count < 0) return error_of(MPI_ERR_COUNT, file->path, "the count is negative");
    if (type == MPI_DATATYPE_NULL)
        return error_of(MPI_ERR_TYPE, file->path, "the datatype is MPI_DATATYPE_NULL");
    int code = MPI_Type_size_x(type, &each);
    if (code != MPI_SUCCESS) return code;
    if (__builtin_mul_overflow((int64_t)each, (int64_t)count, bytes))
        return error_of(MPI_ERR_COUNT, file->path, "too many bytes");
    if (*bytes % file->etype_bytes != 0)
        return error_of(MPI_ERR_ARG, file->path,
                        "the bytes are not a multiple of the view's elementary type");
    return MPI_SUCCESS;
}

int at_of(struct file *file, MPI_Offset offset, int64_t *at) {
    if (offset < 0) return error_of(MPI_ERR_ARG, file->path, "the offset is negative");
    if (__builtin_mul_overflow((int64_t)offset, (int64_t)file->etype_bytes, at))
        return error_of(MPI_ERR_ARG, file->path, "the offset is beyond the largest file size");
    return MPI_SUCCESS;
}

void give_status(MPI_Status *status, int64_t bytes) {
    if (status == MPI_STATUS_IGNORE) return;
    MPI_Status_set_elements_x(status, MPI_BYTE, bytes);
    MPI_Status_set_cancelled(status, 0);
}

/* Packs the memory into `packed`, or unpacks it from there. */
static int convert(struct file *file, enum direction direction, void *buffer, MPI_Count count,
                   MPI_Datatype type, char *packed, int64_t bytes) {
    if (count == 0 || bytes == 0) return MPI_SUCCESS;
    MPI_Count first, extent;
    MPI_Type_get_extent_x(type, &first, &extent);
    int64_t each = bytes / count, at_once = each ? PACKED_MAX / each : 0;
    if (at_once == 0)
        return error_of(MPI_ERR_UNSUPPORTED_OPERATION, file->path,
                        "one element of the memory's type is larger than 1 GiB");
    for (int64_t done = 0; done < count; done += at_once) {
        int now = (int)(count - done < at_once ? count - done : at_once), code;
        char *memory = (char *)buffer + done * extent, *place = packed + done * each;
        int64_t capacity = now * each;
        if (file->representation == EXTERNAL32) {
            MPI_Aint position = 0;
            code = direction == WRITING ? MPI_Pack_external("external32", memory, now, type, place,
                                                            capacity, &position)
                                        : MPI_Unpack_external("external32", place, capacity,
                                                              &position, memory, now, type);
            /* set_view used MPI_Pack_external_size, but Open MPI's MPI_Pack_external differs
             * from it. */
            if (code == MPI_SUCCESS && position != capacity)
                code = error_of(MPI_ERR_UNSUPPORTED_DATAREP, file->path,
                                "a type has another size in external32");
        } else {
            int position = 0;
            code =
                direction == WRITING
                    ? MPI_Pack(memory, now, type, place, (int)capacity, &position, MPI_COMM_SELF)
                    : MPI_Unpack(place, (int)capacity, &position, memory, now, type, MPI_COMM_SELF);
            if (code == MPI_SUCCESS && position != capacity)
                code = error_of(MPI_ERR_CONVERSION, file->path, "MPI_Pack adds to the data");
        }
        if (code != MPI_SUCCESS) return code;
    }
    return MPI_SUCCESS;
}

/* MPI-4.1 14.6.1: in atomic mode other calls see all or nothing of a call. So the range of the file
 * that contains its bytes is locked. */
static int locked(struct file *file, int64_t at, int64_t bytes, int64_t *first, int64_t *length) {
    int64_t last;
    int code = place_of(file, at, first);
    if (code == MPI_SUCCESS) code = place_of(file, at + bytes - 1, &last);
    if (code != MPI_SUCCESS) return code;
    *length = last + 1 - *first;
    if (file->shown.listed) listed_range(file->shown.listed, at, bytes, first, length);
    /* Readers lock exclusively too: with shared locks, a writer might wait forever. */
    return braid_lock(file->whole, *first, *length, 1, 1) < 0 ? error_of_errno(file->path)
                                                              : MPI_SUCCESS;
}

static int move_seen(struct file *file, enum direction direction, int64_t at, char *memory,
                     int64_t bytes, int64_t *moved) {
    ssize_t result = direction == READING ? braid_pread(file->seen, memory, (size_t)bytes, at)
                                          : braid_pwrite(file->seen, memory, (size_t)bytes, at);
    if (result < 0) return error_of_errno(file->path);
    *moved = result;
    return MPI_SUCCESS;
}

static int move_now(struct file *file, enum direction direction, int64_t at, char *memory,
                    int64_t bytes, int64_t *moved) {
    if (file->shown.listed) return listed_read(file, at, memory, bytes, moved);
    return move_seen(file, direction, at, memory, bytes, moved);
}

static int move_locked(struct file *file, enum direction direction, int64_t at, char *memory,
                       int64_t bytes, int64_t *moved) {
    int64_t first, length;
    int code = locked(file, at, bytes, &first, &length);
    if (code != MPI_SUCCESS) return code;
    code = move_now(file, direction, at, memory, bytes, moved);
    if (braid_unlock(file->whole, first, length) < 0 && code == MPI_SUCCESS)
        code = error_of_errno(file->path);
    return code;
}

static int move(struct file *file, enum direction direction, int64_t at, char *memory,
                int64_t bytes, int64_t *moved) {
    if (!file->atomic || bytes == 0) return move_now(file, direction, at, memory, bytes, moved);
    /* The lock belongs to the descriptor, which all threads of a rank share. It does not exclude
     * them from each other, and the first to finish would unlock the bytes of the others. A thread
     * waits here for a call that transfers bytes, and for no MPI call. */
    pthread_mutex_lock(&file->excluding);
    int code = move_locked(file, direction, at, memory, bytes, moved);
    pthread_mutex_unlock(&file->excluding);
    return code;
}

/* Absolute addresses as displacements (MPI_BOTTOM): MPICH packs nothing from NULL. So this uses the
 * same memory from its first byte on. */
static int from_bottom(struct file *file, void **buffer, MPI_Count *count, MPI_Datatype type,
                       MPI_Datatype *moved) {
    MPI_Aint first, extent, back;
    MPI_Type_get_true_extent(type, &first, &extent);
    if (first == 0 || *count > INT_MAX)
        return error_of(MPI_ERR_BUFFER, file->path, "the buffer is NULL");
    int length = (int)*count, code;
    back = -first;
    if ((code = MPI_Type_create_hindexed(1, &length, &back, type, moved)) != MPI_SUCCESS)
        return code;
    *buffer = (void *)first;
    *count = 1;
    return MPI_Type_commit(moved);
}

int stage(struct file *file, enum direction direction, int64_t at, struct staged *staged) {
    int64_t bytes;
    int code = bytes_of(file, staged->count, staged->type, &bytes);
    if (code != MPI_SUCCESS || bytes == 0) return code;
    if (direction == READING && file->amode & MPI_MODE_WRONLY)
        return error_of(MPI_ERR_ACCESS, file->path, "opened for writing only");
    if (direction == WRITING && file->amode & MPI_MODE_RDONLY)
        return error_of(MPI_ERR_READ_ONLY, file->path, "opened for reading only");
    if (shows_nothing(file)) {
        if (direction == READING) return MPI_SUCCESS;
        return error_of(MPI_ERR_ARG, file->path, "the view shows nothing");
    }
    int64_t once = file->shown.once;
    if (once < INT64_MAX && (bytes > once || at > once - bytes))
        return error_of(
            MPI_ERR_UNSUPPORTED_OPERATION, file->path,
            "the copies of the file type overlap, since its extent is less than its span; the "
            "call exceeds the first copy");
    if (staged->buffer && file->representation == NATIVE && is_contiguous(staged->type)) {
        staged->memory = staged->buffer;
        staged->bytes = bytes;
        return MPI_SUCCESS;
    }
    if (!staged->buffer) {
        code = from_bottom(file, &staged->buffer, &staged->count, staged->type, &staged->own);
        if (code != MPI_SUCCESS) return code;
        staged->type = staged->own;
    }
    staged->packed = malloc((size_t)bytes);
    if (!staged->packed) return error_of(MPI_ERR_NO_MEM, file->path, "no memory to pack the data");
    staged->memory = staged->packed;
    staged->bytes = bytes;
    /* A short read leaves the rest of the memory unchanged: its bytes are packed and unpacked
     * again. */
    return convert(file, WRITING, staged->buffer, staged->count, staged->type, staged->packed,
                   bytes);
}

void keep_type(struct staged *staged) {
    if (!staged->packed || staged->own != MPI_DATATYPE_NULL) return;
    MPI_Type_dup(staged->type, &staged->own);
    staged->type = staged->own;
}

int unstage(struct file *file, enum direction direction, struct staged *staged, int code,
            int64_t moved) {
    /* After the transfer: a sync of another thread in the middle may have missed the data. */
    if (direction == WRITING && staged->bytes > 0)
        __atomic_store_n(&file->dirty, 1, __ATOMIC_RELEASE);
    if (code == MPI_SUCCESS && direction == READING && staged->packed && moved > 0)
        code = convert(file, READING, staged->buffer, staged->count, staged->type, staged->packed,
                       staged->bytes);
    free(staged->packed);
    if (staged->own != MPI_DATATYPE_NULL) MPI_Type_free(&staged->own);
    return code;
}

int transfer(struct file *file, enum direction direction, int64_t at, void *buffer, MPI_Count count,
             MPI_Datatype type, int64_t *moved) {
    struct staged staged = {buffer, count, type, MPI_DATATYPE_NULL, NULL, NULL, 0};
    *moved = 0;
    int code = stage(file, direction, at, &staged);
    if (code == MPI_SUCCESS && staged.bytes > 0)
        code = move(file, direction, at, staged.memory, staged.bytes, moved);
    return unstage(file, direction, &staged, code, *moved);
}

int transfer_together(struct file *file, enum direction direction, int code, int64_t at,
                      void *buffer, MPI_Count count, MPI_Datatype type, int64_t *moved) {
    struct staged staged = {buffer, count, type, MPI_DATATYPE_NULL, NULL, NULL, 0};
    *moved = 0;
    if (code == MPI_SUCCESS) code = stage(file, direction, at, &staged);
    if (code == MPI_SUCCESS)
        code = move_together(file, direction, at, staged.memory, staged.bytes, moved);
    else refuse_together(file, code);
    return unstage(file, direction, &staged, code, *moved);
}

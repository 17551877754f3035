/* The individual and the shared file pointer: get and seek. MPI-4.1 14.4.3, 14.4.4. */
#include "shim.h"

/* The target of a seek, in bytes of the view's stream. */
static int target(struct file *file, int64_t current, MPI_Offset offset, int whence, int64_t *at) {
    int64_t base = 0, by;
    if (whence == MPI_SEEK_CUR) base = current;
    else if (whence == MPI_SEEK_END) {
        int64_t size = braid_size(file->whole);
        if (size < 0) return error_of_errno(file->path);
        base = bytes_below(file, size);
        /* The end is after the last elementary type that contains a byte of the file. */
        base = (base + file->etype_bytes - 1) / file->etype_bytes * file->etype_bytes;
    } else if (whence != MPI_SEEK_SET)
        return error_of(MPI_ERR_ARG, file->path, "the whence of a seek is wrong");
    if (__builtin_mul_overflow((int64_t)offset, (int64_t)file->etype_bytes, &by) ||
        __builtin_add_overflow(base, by, at) || *at < 0)
        return error_of(MPI_ERR_ARG, file->path,
                        "a seek to a negative position, or beyond the largest file size");
    return MPI_SUCCESS;
}

static int sequential(struct file *file) {
    if (!(file->amode & MPI_MODE_SEQUENTIAL)) return MPI_SUCCESS;
    return error_of(MPI_ERR_UNSUPPORTED_OPERATION, file->path, "opened with MPI_MODE_SEQUENTIAL");
}

DEFINE(seek, MPI_File handle, MPI_Offset offset, int whence) {
    struct file *file = ours(handle);
    if (!file) return REAL(seek)(handle, offset, whence);
    int64_t at;
    pthread_mutex_lock(&file->moving);
    int code = sequential(file);
    if (code == MPI_SUCCESS) code = target(file, file->position, offset, whence, &at);
    if (code == MPI_SUCCESS) file->position = at;
    pthread_mutex_unlock(&file->moving);
    return failed(file, code);
}

DEFINE(get_position, MPI_File handle, MPI_Offset *offset) {
    struct file *file = ours(handle);
    if (!file) return REAL(get_position)(handle, offset);
    int code = sequential(file);
    if (code != MPI_SUCCESS) return failed(file, code);
    pthread_mutex_lock(&file->moving);
    *offset = file->position / file->etype_bytes;
    pthread_mutex_unlock(&file->moving);
    return MPI_SUCCESS;
}

DEFINE(seek_shared, MPI_File handle, MPI_Offset offset, int whence) {
    struct file *file = ours(handle);
    if (!file) return REAL(seek_shared)(handle, offset, whence);
    struct {
        long long offset, whence;
    } mine = {offset, whence}, first = mine;
    MPI_Bcast(&first, 2, MPI_LONG_LONG, 0, file->comm);
    int code = sequential(file);
    if (code == MPI_SUCCESS && (mine.offset != first.offset || mine.whence != first.whence))
        code = error_of(MPI_ERR_NOT_SAME, file->path, "the ranks seek to different positions");
    /* All ranks are here before the pointer moves, and none continues before it has moved. */
    code = agreed(file, code);
    if (code == MPI_SUCCESS && file->rank == 0) {
        int64_t current, at;
        code = shared_fetch_add(file, 0, &current);
        if (code == MPI_SUCCESS) code = target(file, current, offset, whence, &at);
        if (code == MPI_SUCCESS) code = shared_set(file, at);
    }
    return failed(file, agreed(file, code));
}

DEFINE(get_position_shared, MPI_File handle, MPI_Offset *offset) {
    struct file *file = ours(handle);
    if (!file) return REAL(get_position_shared)(handle, offset);
    int64_t at;
    int code = shared_fetch_add(file, 0, &at);
    if (code == MPI_SUCCESS) *offset = at / file->etype_bytes;
    return failed(file, code);
}

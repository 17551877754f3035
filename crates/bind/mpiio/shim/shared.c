/* The shared file pointer: eight bytes in a file beside the data file, changed under a lock.
 * MPI-4.1 14.4.4.
 *
 * The lock belongs to the descriptor, which all threads of a rank share. Between them, the mutex
 * `sharing` excludes. Its holder waits for I/O, but for no MPI call. */
#include "shim.h"

#include <fcntl.h>

static int opened(struct file *file) {
    if (file->shared >= 0) return MPI_SUCCESS;
    /* Set before the call: a failed call may have created the file. */
    __atomic_store_n(&file->uses_shared, 1, __ATOMIC_RELEASE);
    file->shared = braid_open(cluster_of_process(), file->shared_path, O_RDWR | O_CREAT, 0600);
    return file->shared < 0 ? error_of_errno(file->shared_path) : MPI_SUCCESS;
}

static int exchange(struct file *file, int64_t set, int64_t add, int64_t *before) {
    int code = opened(file);
    if (code != MPI_SUCCESS) return code;
    int64_t value = 0;
    if (braid_lock(file->shared, 0, sizeof value, 1, 1) < 0)
        return error_of_errno(file->shared_path);
    /* A new file is empty: the pointer is at 0. */
    if (braid_pread(file->shared, &value, sizeof value, 0) < 0)
        code = error_of_errno(file->shared_path);
    *before = value;
    value = (set >= 0 ? set : value) + add;
    if (code == MPI_SUCCESS && value != *before &&
        braid_pwrite(file->shared, &value, sizeof value, 0) < 0)
        code = error_of_errno(file->shared_path);
    if (braid_unlock(file->shared, 0, sizeof value) < 0 && code == MPI_SUCCESS)
        code = error_of_errno(file->shared_path);
    return code;
}

int shared_fetch_add(struct file *file, int64_t bytes, int64_t *at) {
    pthread_mutex_lock(&file->sharing);
    int code = exchange(file, -1, bytes, at);
    pthread_mutex_unlock(&file->sharing);
    return code;
}

int shared_set(struct file *file, int64_t at) {
    int64_t before;
    pthread_mutex_lock(&file->sharing);
    int code = exchange(file, at, 0, &before);
    pthread_mutex_unlock(&file->sharing);
    return code;
}

int uses_shared(const struct file *file) {
    return __atomic_load_n(&file->uses_shared, __ATOMIC_ACQUIRE);
}

int ordered_at(struct file *file, int64_t bytes, int64_t *at) {
    long long mine = bytes, before = 0, all = 0;
    struct {
        int code;
        long long at;
    } start = {MPI_SUCCESS, 0};
    MPI_Exscan(&mine, &before, 1, MPI_LONG_LONG, MPI_SUM, file->comm);
    MPI_Allreduce(&mine, &all, 1, MPI_LONG_LONG, MPI_SUM, file->comm);
    if (file->rank == 0) {
        before = 0;
        int64_t found = 0;
        start.code = shared_fetch_add(file, all, &found);
        start.at = found;
    }
    MPI_Bcast(&start.at, 1, MPI_LONG_LONG, 0, file->comm);
    *at = start.at + before;
    return agreed(file, start.code);
}

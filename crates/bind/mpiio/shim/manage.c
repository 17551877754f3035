/* Size, group, mode, consistency. MPI-4.1 14.2.4 to 14.2.7, 14.6. */
#include "shim.h"

/* Rank 0 makes the change. All ranks get its result, and continue when it is done. */
static int by_first(struct file *file, int result) {
    return failed(file, agreed(file, result < 0 ? error_of_errno(file->path) : MPI_SUCCESS));
}

static int may_change(struct file *file, MPI_Offset size) {
    if (file->split != NO_SPLIT)
        return error_of(MPI_ERR_OTHER, file->path, "a split collective call is still pending");
    if (size < 0) return error_of(MPI_ERR_ARG, file->path, "a negative size");
    if (file->amode & MPI_MODE_SEQUENTIAL)
        return error_of(MPI_ERR_UNSUPPORTED_OPERATION, file->path,
                        "opened with MPI_MODE_SEQUENTIAL");
    if (file->amode & MPI_MODE_RDONLY)
        return error_of(MPI_ERR_READ_ONLY, file->path, "opened for reading only");
    return MPI_SUCCESS;
}

DEFINE(set_size, MPI_File handle, MPI_Offset size) {
    struct file *file = ours(handle);
    if (!file) return REAL(set_size)(handle, size);
    int code = agreed(file, may_change(file, size));
    if (code != MPI_SUCCESS) return failed(file, code);
    return by_first(file, file->rank == 0 ? braid_ftruncate(file->whole, size) : 0);
}

DEFINE(preallocate, MPI_File handle, MPI_Offset size) {
    struct file *file = ours(handle);
    if (!file) return REAL(preallocate)(handle, size);
    int code = agreed(file, may_change(file, size));
    if (code != MPI_SUCCESS || size == 0) return failed(file, code);
    return by_first(file, file->rank == 0 ? braid_allocate(file->whole, 0, size, 0) : 0);
}

DEFINE(get_size, MPI_File handle, MPI_Offset *size) {
    struct file *file = ours(handle);
    if (!file) return REAL(get_size)(handle, size);
    int64_t found = braid_size(file->whole);
    if (found < 0) return failed(file, error_of_errno(file->path));
    *size = found;
    return MPI_SUCCESS;
}

DEFINE(get_group, MPI_File handle, MPI_Group *group) {
    struct file *file = ours(handle);
    return file ? MPI_Comm_group(file->comm, group) : REAL(get_group)(handle, group);
}

DEFINE(get_amode, MPI_File handle, int *amode) {
    struct file *file = ours(handle);
    if (!file) return REAL(get_amode)(handle, amode);
    *amode = file->amode;
    return MPI_SUCCESS;
}

DEFINE(set_atomicity, MPI_File handle, int flag) {
    struct file *file = ours(handle);
    if (!file) return REAL(set_atomicity)(handle, flag);
    int any = 0, all = 0;
    flag = !!flag;
    MPI_Allreduce(&flag, &any, 1, MPI_INT, MPI_LOR, file->comm);
    MPI_Allreduce(&flag, &all, 1, MPI_INT, MPI_LAND, file->comm);
    if (any != all)
        return failed(file,
                      error_of(MPI_ERR_NOT_SAME, file->path, "the ranks want different atomicity"));
    file->atomic = flag;
    forget_costs(file);
    return MPI_SUCCESS;
}

DEFINE(get_atomicity, MPI_File handle, int *flag) {
    struct file *file = ours(handle);
    if (!file) return REAL(get_atomicity)(handle, flag);
    *flag = file->atomic;
    return MPI_SUCCESS;
}

DEFINE(sync, MPI_File handle) {
    struct file *file = ours(handle);
    if (!file) return REAL(sync)(handle);
    if (file->split != NO_SPLIT)
        return failed(
            file, error_of(MPI_ERR_OTHER, file->path, "a split collective call is still pending"));
    int code = MPI_SUCCESS;
    /* Before the sync: data that another thread writes meanwhile needs the next sync. */
    if (__atomic_exchange_n(&file->dirty, 0, __ATOMIC_ACQ_REL) && braid_fsync(file->whole) < 0) {
        code = error_of_errno(file->path);
        __atomic_store_n(&file->dirty, 1, __ATOMIC_RELEASE);
    }
    return failed(file, agreed(file, code));
}

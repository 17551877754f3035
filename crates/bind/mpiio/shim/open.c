/* Open, close and delete. MPI-4.1 14.2.1 to 14.2.3. */
#define _GNU_SOURCE
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int cluster = -1;
static pthread_mutex_t connecting = PTHREAD_MUTEX_INITIALIZER;

/* The read cache of a rank, unless BRAID_READ_CACHE says otherwise. Small independent reads are
 * slow without it, and most inputs of MPI programs are read by many and written by none. */
#define READ_CACHE_BYTES (64u << 20)

/* MPI_Finalize calls it: it deletes the attributes of MPI_COMM_SELF first (MPI-4.1 11.2.4). */
static int disconnect(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)key, (void)value, (void)extra;
    braid_disconnect(cluster);
    cluster = -1;
    return MPI_SUCCESS;
}

int cluster_of_process(void) {
    pthread_mutex_lock(&connecting);
    struct braid_options options = {0};
    if (!getenv("BRAID_READ_CACHE")) options.read_cache_bytes = READ_CACHE_BYTES;
    if (cluster < 0 && (cluster = braid_connect(NULL, &options)) >= 0) {
        int key;
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, disconnect, &key, NULL);
        MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
        MPI_Comm_free_keyval(&key);
    }
    pthread_mutex_unlock(&connecting);
    return cluster;
}

/* For a failure before there is a handle: the error handler of MPI_FILE_NULL is called. Open MPI
 * 4.1 does not call it on MPI_FILE_NULL itself, so it is set on a temporary handle. */
static int failed_without_file(int code) {
    MPI_File carrier;
    MPI_Errhandler handler;
    if (MPI_File_get_errhandler(MPI_FILE_NULL, &handler) != MPI_SUCCESS) return code;
    if (handler != MPI_ERRORS_RETURN && REAL(open)(MPI_COMM_SELF, "/dev/null", MPI_MODE_RDWR,
                                                   MPI_INFO_NULL, &carrier) == MPI_SUCCESS) {
        MPI_File_set_errhandler(carrier, handler);
        MPI_File_call_errhandler(carrier, code);
        REAL(close)(&carrier);
    }
#ifdef OPEN_MPI
    /* MPICH 4.0 returns the handler without a reference of ours to it. */
    if (handler != MPI_ERRORS_RETURN && handler != MPI_ERRORS_ARE_FATAL)
        MPI_Errhandler_free(&handler);
#endif
    return code;
}

static int check_mode(struct file *file) {
    int amode = file->amode, ways = !!(amode & MPI_MODE_RDONLY) + !!(amode & MPI_MODE_RDWR) +
                                    !!(amode & MPI_MODE_WRONLY);
    int lowest = amode, highest = amode;
    MPI_Allreduce(&amode, &lowest, 1, MPI_INT, MPI_MIN, file->comm);
    MPI_Allreduce(&amode, &highest, 1, MPI_INT, MPI_MAX, file->comm);
    if (lowest != highest)
        return error_of(MPI_ERR_NOT_SAME, file->path, "the modes of the ranks differ");
    if (ways != 1)
        return error_of(MPI_ERR_AMODE, file->path,
                        "exactly one of MPI_MODE_RDONLY, RDWR and WRONLY is required");
    if (amode & MPI_MODE_RDONLY && amode & (MPI_MODE_CREATE | MPI_MODE_EXCL))
        return error_of(MPI_ERR_AMODE, file->path, "MPI_MODE_CREATE and EXCL exclude RDONLY");
    if (amode & MPI_MODE_RDWR && amode & MPI_MODE_SEQUENTIAL)
        return error_of(MPI_ERR_AMODE, file->path, "MPI_MODE_SEQUENTIAL excludes RDWR");
    return MPI_SUCCESS;
}

/* A name of the form braid://HOST:PORT/path: the cluster is configured elsewhere. */
static int refused_server(const char *path) {
    return error_of(MPI_ERR_BAD_FILE, path,
                    "the name contains a server; try: braid:/path, with BRAID_MDS=HOST:PORT in the "
                    "environment");
}

static int open_one(struct file *file, MPI_Info info, int create) {
    if (names_server(file->path)) return refused_server(file->path);
    int connected = cluster_of_process();
    if (connected < 0) return error_of_errno("connect");
    int flags = file->amode & MPI_MODE_RDONLY   ? O_RDONLY
                : file->amode & MPI_MODE_WRONLY ? O_WRONLY
                                                : O_RDWR;
    if (create && file->amode & MPI_MODE_CREATE) flags |= O_CREAT;
    if (create && file->amode & MPI_MODE_EXCL) flags |= O_EXCL;
    struct braid_layout layout;
    layout_hints(info, &layout);
    /* libbraid applies the user's umask. */
    mode_t mode = permissions_hint(info);
    file->whole = braid_open_layout(connected, file->path, flags, mode, &layout);
    /* Hints that the cluster cannot follow are dropped: first those about its daemons, then all. */
    if (file->whole < 0 && flags & O_CREAT && (errno == EINVAL || errno == ENOSPC) &&
        (layout.iod_count || layout.first_iod >= 0)) {
        layout.iod_count = 0;
        layout.first_iod = -1;
        file->whole = braid_open_layout(connected, file->path, flags, mode, &layout);
    }
    if (file->whole < 0 && errno == EINVAL && layout.stripe_bytes)
        file->whole = braid_open(connected, file->path, flags, mode);
    return file->whole < 0 ? error_of_errno(file->path) : MPI_SUCCESS;
}

/* `/a/b` -> `/a/.b.shared-NONCE`: one for each open, the same on all ranks. */
static void name_shared(struct file *file) {
    unsigned long long nonce = 0;
    if (file->rank == 0) {
        int random = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
        if (random < 0 || read(random, &nonce, sizeof nonce) != sizeof nonce)
            nonce = (unsigned long long)getpid() << 32 | (uintptr_t)file;
        if (random >= 0) close(random);
    }
    MPI_Bcast(&nonce, 1, MPI_UNSIGNED_LONG_LONG, 0, file->comm);
    const char *slash = strrchr(file->path, '/'), *name = slash ? slash + 1 : file->path;
    if (asprintf(&file->shared_path, "%.*s.%.200s.shared-%016llx", (int)(name - file->path),
                 file->path, name, nonce) < 0)
        abort();
}

void hold_file(struct file *file) { __atomic_add_fetch(&file->users, 1, __ATOMIC_RELAXED); }

void drop_file(struct file *file) {
    if (__atomic_sub_fetch(&file->users, 1, __ATOMIC_ACQ_REL) > 0) return;
    pthread_mutex_destroy(&file->moving);
    pthread_mutex_destroy(&file->sharing);
    pthread_mutex_destroy(&file->excluding);
    free(file->shared_path);
    free(file->path);
    free(file);
}

static void dismantle(struct file *file) {
    drop_view(file);
    if (file->shared >= 0) braid_close(file->shared);
    if (file->whole >= 0) braid_close(file->whole);
    braid_group_free(file->group);
    if (file->info != MPI_INFO_NULL) MPI_Info_free(&file->info);
    MPI_Comm_free(&file->comm);
    file->handle = MPI_FILE_NULL;
    drop_file(file);
}

/* Rank 0 creates the file; the others open it. */
static int open_all(struct file *file, MPI_Info info) {
    int code = agreed(file, check_mode(file));
    if (code != MPI_SUCCESS) return code;
    code = agreed(file, file->rank == 0 ? open_one(file, info, 1) : MPI_SUCCESS);
    if (code != MPI_SUCCESS) return code;
    code = agreed(file, file->rank != 0 ? open_one(file, info, 0) : MPI_SUCCESS);
    if (code != MPI_SUCCESS) return code;
    MPI_Info_create(&file->info);
    take_permissions(file, info);
    name_shared(file);
    code = set_view(file, 0, MPI_BYTE, MPI_BYTE, NATIVE);
    take_nonblocking(file, getenv("BRAID_MPIIO_NONBLOCKING"));
    take_hints(file, info, getenv("BRAID_MPIIO_COLLECTIVE"));
    file->group = braid_group_calling((uint32_t)file->rank, (uint32_t)file->size, all_gather, file);
    if (!file->group && code == MPI_SUCCESS) code = error_of_errno(file->path);
    if (code == MPI_SUCCESS && file->amode & MPI_MODE_APPEND) {
        int64_t end = braid_size(file->whole);
        if (end < 0) code = error_of_errno(file->path);
        else file->position = end;
        if (code == MPI_SUCCESS && file->rank == 0 && end > 0) code = shared_set(file, end);
    }
    if (code == MPI_SUCCESS)
        code = REAL(open)(MPI_COMM_SELF, "/dev/null", MPI_MODE_RDWR, MPI_INFO_NULL, &file->handle);
    return agreed(file, code);
}

DEFINE(open, MPI_Comm comm, const char *name, int amode, MPI_Info info, MPI_File *handle) {
    char *path = path_of_all(comm, name);
    if (!path) return REAL(open)(comm, name, amode, info, handle);
    *handle = MPI_FILE_NULL;
    struct file *file = calloc(1, sizeof *file);
    if (!file) abort();
    file->users = 1;
    file->amode = amode;
    file->path = path;
    file->handle = MPI_FILE_NULL;
    file->etype = file->filetype = MPI_DATATYPE_NULL;
    file->whole = file->seen = file->shared = -1;
    file->info = MPI_INFO_NULL;
    pthread_mutex_init(&file->moving, NULL);
    pthread_mutex_init(&file->sharing, NULL);
    pthread_mutex_init(&file->excluding, NULL);
    int code = MPI_Comm_dup(comm, &file->comm);
    if (code != MPI_SUCCESS) {
        free(file->path);
        free(file);
        return failed_without_file(code);
    }
    MPI_Comm_rank(file->comm, &file->rank);
    MPI_Comm_size(file->comm, &file->size);
    code = open_all(file, info);
    if (code != MPI_SUCCESS) {
        if (file->handle != MPI_FILE_NULL) REAL(close)(&file->handle);
        dismantle(file);
        return failed_without_file(code);
    }
    remember(file);
    *handle = file->handle;
    return MPI_SUCCESS;
}

DEFINE(close, MPI_File *handle) {
    struct file *file = ours(*handle);
    if (!file) return REAL(close)(handle);
    if (file->split != NO_SPLIT)
        return failed(
            file, error_of(MPI_ERR_OTHER, file->path, "a split collective call is still pending"));
    finish_all(file);
    /* MPI-4.1 14.2.2: as if MPI_File_sync were called. */
    int code =
        file->dirty && braid_fsync(file->whole) < 0 ? error_of_errno(file->path) : MPI_SUCCESS;
    if (file->shared >= 0 && braid_close(file->shared) < 0 && code == MPI_SUCCESS)
        code = error_of_errno(file->shared_path);
    file->shared = -1;
    int is_shared = uses_shared(file);
    code = agreed_with(file, code, &is_shared);
    int is_deleted = file->amode & MPI_MODE_DELETE_ON_CLOSE;
    if (file->rank == 0) {
        if (is_shared && braid_unlink(cluster, file->shared_path) < 0 && errno != ENOENT &&
            code == MPI_SUCCESS)
            code = error_of_errno(file->shared_path);
        if (is_deleted && braid_unlink(cluster, file->path) < 0 && code == MPI_SUCCESS)
            code = error_of_errno(file->path);
    }
    if (is_shared || is_deleted) code = agreed(file, code);
    forget(file);
    /* The handler belongs to the handle, which is about to be freed. */
    failed(file, code);
    MPI_File key = file->handle;
    REAL(close)(&key);
    dismantle(file);
    *handle = MPI_FILE_NULL;
    return code;
}

DEFINE(delete, const char *name, MPI_Info info) {
    char *path = path_of(name);
    if (!path) return REAL(delete)(name, info);
    int connected = names_server(path) ? -1 : cluster_of_process(), code = MPI_SUCCESS;
    if (names_server(path)) code = refused_server(path);
    else if (connected < 0) code = error_of_errno("connect");
    else if (braid_unlink(connected, path) < 0) code = error_of_errno(path);
    free(path);
    return code == MPI_SUCCESS ? code : failed_without_file(code);
}

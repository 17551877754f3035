/* All functions that read and write. MPI-4.1 14.4.
 *
 *   where      explicit offset | individual pointer | shared pointer | in the order of ranks
 *   how        blocking | nonblocking | split
 *
 * A blocking or split collective call is one call of all ranks where that is faster (together.c);
 * otherwise each rank makes an independent call, which is one request to each I/O daemon. A
 * nonblocking call continues while the program computes (background.c). Each rank makes it
 * independently: it never waits for other ranks. */
#include "shim.h"

enum where { EXPLICIT, INDIVIDUAL, SHARED, ORDERED };

struct access {
    enum direction direction;
    enum method method; /* TOGETHER: a collective call, whatever its method */
    enum where where;
    MPI_Offset offset;
    void *buffer;
    MPI_Count count;
    MPI_Datatype type;
};

static int refused(struct file *file, enum where where) {
    if (file->amode & MPI_MODE_SEQUENTIAL && where <= INDIVIDUAL)
        return error_of(MPI_ERR_UNSUPPORTED_OPERATION, file->path,
                        "opened with MPI_MODE_SEQUENTIAL: use the shared pointer");
    return MPI_SUCCESS;
}

/* A blocking or split collective call: made together, or each rank's own. A rank that has failed
 * takes part in a call together, and in the choice of the method. */
static int collective(struct file *file, const struct access *access, int code, int64_t at,
                      int64_t bytes, int64_t *moved) {
    enum direction direction = access->direction;
    /* Includes the check for overlaps: a view that is set before each call needs it in each. */
    int64_t begun = nanoseconds();
    enum method method = choose_method(file, direction, bytes);
    if (method == TOGETHER)
        code = transfer_together(file, direction, code, at, access->buffer, access->count,
                                 access->type, moved);
    else if (code == MPI_SUCCESS)
        code = transfer(file, direction, at, access->buffer, access->count, access->type, moved);
    record_cost(file, direction, method, bytes, nanoseconds() - begun);
    return code;
}

/* Makes the call, or starts it if `started` is given. A started call moves the pointer by the bytes
 * asked for, since the result is not known yet (MPI-4.1 14.4.1). */
static int done(struct file *file, struct access access, struct pending **started, int64_t *moved) {
    int64_t at = 0, bytes = 0;
    *moved = 0;
    int code = refused(file, access.where);
    if (code == MPI_SUCCESS) code = bytes_of(file, access.count, access.type, &bytes);
    switch (access.where) {
    case EXPLICIT:
        if (code == MPI_SUCCESS) code = at_of(file, access.offset, &at);
        break;
    case INDIVIDUAL:
        pthread_mutex_lock(&file->moving);
        at = file->position;
        break;
    case SHARED:
        if (code == MPI_SUCCESS) code = shared_fetch_add(file, bytes, &at);
        break;
    case ORDERED: {
        /* A rank takes part even with a failure of its own: the others wait for it. */
        int found = ordered_at(file, code == MPI_SUCCESS ? bytes : 0, &at);
        if (code == MPI_SUCCESS) code = found;
        break;
    }
    }
    if (access.method == TOGETHER) code = collective(file, &access, code, at, bytes, moved);
    else if (code == MPI_SUCCESS && started)
        code = transfer_start(file, access.direction, at, access.buffer, access.count, access.type,
                              started);
    else if (code == MPI_SUCCESS)
        code =
            transfer(file, access.direction, at, access.buffer, access.count, access.type, moved);
    if (access.where == INDIVIDUAL) {
        if (code == MPI_SUCCESS) file->position += started ? bytes : *moved;
        pthread_mutex_unlock(&file->moving);
    }
    return code;
}

static int blocking(struct file *file, struct access access, MPI_Status *status) {
    int64_t moved;
    int code = done(file, access, NULL, &moved);
    if (code == MPI_SUCCESS) give_status(status, moved);
    return failed(file, code);
}

static int nonblocking(struct file *file, struct access access, MPI_Request *request) {
    struct pending *pending = NULL;
    int64_t moved;
    int code = done(file, access, &pending, &moved);
    if (code == MPI_SUCCESS) code = request_of(pending, request);
    return failed(file, code);
}

static int begin(struct file *file, struct access access, enum split split) {
    if (file->split != NO_SPLIT) {
        int code = error_of(MPI_ERR_OTHER, file->path, "a split collective call is still pending");
        if (access.method == TOGETHER && choose_method(file, access.direction, 0) == TOGETHER)
            refuse_together(file, code);
        return failed(file, code);
    }
    int code = done(file, access, NULL, &file->split_bytes);
    if (code == MPI_SUCCESS) file->split = split;
    return failed(file, code);
}

static int end(struct file *file, enum split split, MPI_Status *status) {
    if (file->split != split)
        return failed(
            file, error_of(MPI_ERR_OTHER, file->path, "no such split collective call is pending"));
    file->split = NO_SPLIT;
    give_status(status, file->split_bytes);
    return MPI_SUCCESS;
}

#define AT(name, direction, method, buffer_type, count_type)                                   \
    DEFINE(name, MPI_File handle, MPI_Offset offset, buffer_type buffer, count_type count,     \
           MPI_Datatype type, MPI_Status *status) {                                            \
        struct file *file = ours(handle);                                                      \
        if (!file) return REAL(name)(handle, offset, buffer, count, type, status);             \
        return blocking(                                                                       \
            file,                                                                              \
            (struct access){direction, method, EXPLICIT, offset, (void *)buffer, count, type}, \
            status);                                                                           \
    }
#define PLAIN(name, direction, method, where, buffer_type, count_type)                             \
    DEFINE(name, MPI_File handle, buffer_type buffer, count_type count, MPI_Datatype type,         \
           MPI_Status *status) {                                                                   \
        struct file *file = ours(handle);                                                          \
        if (!file) return REAL(name)(handle, buffer, count, type, status);                         \
        return blocking(file,                                                                      \
                        (struct access){direction, method, where, 0, (void *)buffer, count, type}, \
                        status);                                                                   \
    }
#define START_AT(name, direction, buffer_type, count_type)                                    \
    DEFINE(name, MPI_File handle, MPI_Offset offset, buffer_type buffer, count_type count,    \
           MPI_Datatype type, MPI_Request *request) {                                         \
        struct file *file = ours(handle);                                                     \
        if (!file) return REAL(name)(handle, offset, buffer, count, type, request);           \
        return nonblocking(                                                                   \
            file,                                                                             \
            (struct access){direction, ALONE, EXPLICIT, offset, (void *)buffer, count, type}, \
            request);                                                                         \
    }
#define START(name, direction, where, buffer_type, count_type)                              \
    DEFINE(name, MPI_File handle, buffer_type buffer, count_type count, MPI_Datatype type,  \
           MPI_Request *request) {                                                          \
        struct file *file = ours(handle);                                                   \
        if (!file) return REAL(name)(handle, buffer, count, type, request);                 \
        return nonblocking(                                                                 \
            file, (struct access){direction, ALONE, where, 0, (void *)buffer, count, type}, \
            request);                                                                       \
    }
#define BEGIN_AT(name, direction, split, buffer_type, count_type)                                \
    DEFINE(name, MPI_File handle, MPI_Offset offset, buffer_type buffer, count_type count,       \
           MPI_Datatype type) {                                                                  \
        struct file *file = ours(handle);                                                        \
        if (!file) return REAL(name)(handle, offset, buffer, count, type);                       \
        return begin(                                                                            \
            file,                                                                                \
            (struct access){direction, TOGETHER, EXPLICIT, offset, (void *)buffer, count, type}, \
            split);                                                                              \
    }
#define BEGIN(name, direction, method, where, split, buffer_type, count_type)                   \
    DEFINE(name, MPI_File handle, buffer_type buffer, count_type count, MPI_Datatype type) {    \
        struct file *file = ours(handle);                                                       \
        if (!file) return REAL(name)(handle, buffer, count, type);                              \
        return begin(file,                                                                      \
                     (struct access){direction, method, where, 0, (void *)buffer, count, type}, \
                     split);                                                                    \
    }
#define END(name, split, buffer_type)                                                \
    DEFINE(name, MPI_File handle, buffer_type buffer, MPI_Status *status) {          \
        struct file *file = ours(handle);                                            \
        return file ? end(file, split, status) : REAL(name)(handle, buffer, status); \
    }

/* `c`: nothing, or _c for the forms with large counts (MPI-4.1 14.4.1), which exist from MPI 4
 * on. */
#define ALL(c, count_type)                                                                        \
    AT(read_at##c, READING, ALONE, void *, count_type)                                            \
    AT(read_at_all##c, READING, TOGETHER, void *, count_type)                                     \
    AT(write_at##c, WRITING, ALONE, const void *, count_type)                                     \
    AT(write_at_all##c, WRITING, TOGETHER, const void *, count_type)                              \
    PLAIN(read##c, READING, ALONE, INDIVIDUAL, void *, count_type)                                \
    PLAIN(read_all##c, READING, TOGETHER, INDIVIDUAL, void *, count_type)                         \
    PLAIN(write##c, WRITING, ALONE, INDIVIDUAL, const void *, count_type)                         \
    PLAIN(write_all##c, WRITING, TOGETHER, INDIVIDUAL, const void *, count_type)                  \
    PLAIN(read_shared##c, READING, ALONE, SHARED, void *, count_type)                             \
    PLAIN(write_shared##c, WRITING, ALONE, SHARED, const void *, count_type)                      \
    PLAIN(read_ordered##c, READING, ALONE, ORDERED, void *, count_type)                           \
    PLAIN(write_ordered##c, WRITING, ALONE, ORDERED, const void *, count_type)                    \
    START_AT(iread_at##c, READING, void *, count_type)                                            \
    START_AT(iread_at_all##c, READING, void *, count_type)                                        \
    START_AT(iwrite_at##c, WRITING, const void *, count_type)                                     \
    START_AT(iwrite_at_all##c, WRITING, const void *, count_type)                                 \
    START(iread##c, READING, INDIVIDUAL, void *, count_type)                                      \
    START(iread_all##c, READING, INDIVIDUAL, void *, count_type)                                  \
    START(iwrite##c, WRITING, INDIVIDUAL, const void *, count_type)                               \
    START(iwrite_all##c, WRITING, INDIVIDUAL, const void *, count_type)                           \
    START(iread_shared##c, READING, SHARED, void *, count_type)                                   \
    START(iwrite_shared##c, WRITING, SHARED, const void *, count_type)                            \
    BEGIN_AT(read_at_all_begin##c, READING, READ_AT_ALL, void *, count_type)                      \
    BEGIN_AT(write_at_all_begin##c, WRITING, WRITE_AT_ALL, const void *, count_type)              \
    BEGIN(read_all_begin##c, READING, TOGETHER, INDIVIDUAL, READ_ALL, void *, count_type)         \
    BEGIN(write_all_begin##c, WRITING, TOGETHER, INDIVIDUAL, WRITE_ALL, const void *, count_type) \
    BEGIN(read_ordered_begin##c, READING, ALONE, ORDERED, READ_ORDERED, void *, count_type)       \
    BEGIN(write_ordered_begin##c, WRITING, ALONE, ORDERED, WRITE_ORDERED, const void *, count_type)

ALL(, int)
#if MPI_VERSION >= 4
ALL(_c, MPI_Count)
#endif
END(read_at_all_end, READ_AT_ALL, void *)
END(write_at_all_end, WRITE_AT_ALL, const void *)
END(read_all_end, READ_ALL, void *)
END(write_all_end, WRITE_ALL, const void *)
END(read_ordered_end, READ_ORDERED, void *)
END(write_ordered_end, WRITE_ORDERED, const void *)

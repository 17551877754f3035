/* Nonblocking calls, which continue while the program computes. MPI-4.1 13.2 (generalized
 * requests), 14.4.
 *
 *   MPI_File_iread ── memory staged, libbraid's call started ──> a generalized request
 *   libbraid's threads: bytes between daemons and memory
 *   MPI_Wait, MPI_Test ── the MPI polls `is_over` ── yes ──> unpack, MPI_Grequest_complete
 *
 * 1. No thread of ours calls MPI, so it works at every level of MPI_Init_thread. The MPI's own
 * progress
 *    polls, inside the program's calls. MPICH polls requests that provide a function for it
 *    (MPI_Request_get_status does not poll, so it is defined here). In Open MPI the function is
 *    registered with its progress engine (opal_progress).
 * 2. If the MPI has neither, a call completes when it is started, which the standard allows. The
 * same
 *    holds in atomic mode, whose locks are held until the bytes are transferred, and for lists
 *    (listed.c).
 * 3. A file lives until its calls complete: MPI_File_close and MPI_File_set_view wait for them. The
 *    error of a call is the error of its request. */
#include "shim.h"

#include <stdlib.h>

struct pending {
    struct pending *next, *before; /* in start order, until they complete */
    struct file *file;
    enum direction direction;
    struct staged staged;
    struct braid_request *call; /* NULL when it is complete */
    MPI_Request request;
    int64_t moved;
    int code;
};

static struct pending *first, *last;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
enum { POLLED_MAX = 64 }; /* per poll: libbraid runs sixteen calls at a time, in order */

#ifdef OPEN_MPI
/* Not part of its API, but exported since its first version, with this type. */
extern int opal_progress_register(int (*function)(void)) __attribute__((weak));
int can_be_asked(void) { return opal_progress_register != NULL; }
#elif defined MPICH_VERSION
int can_be_asked(void) { return 1; }
#else
int can_be_asked(void) { return 0; }
#endif

static void append(struct pending *pending) {
    pthread_mutex_lock(&guard);
    pending->before = last;
    if (last) last->next = pending;
    else first = pending;
    last = pending;
    pthread_mutex_unlock(&guard);
}

/* Waits for the call if necessary. The lock must be held. Returns whether the call was still
 * pending: then its request must be completed, without the lock. */
static int finish(struct pending *pending) {
    if (!pending->call) return 0;
    if (pending->before) pending->before->next = pending->next;
    else first = pending->next;
    if (pending->next) pending->next->before = pending->before;
    else last = pending->before;
    ssize_t result = braid_wait(pending->call);
    pending->call = NULL;
    pending->moved = result < 0 ? 0 : result;
    int code = result < 0 ? error_of_errno(pending->file->path) : MPI_SUCCESS;
    pending->code =
        unstage(pending->file, pending->direction, &pending->staged, code, pending->moved);
    return 1;
}

void finish_all(struct file *file) {
    for (;;) {
        pthread_mutex_lock(&guard);
        struct pending *pending = first;
        while (pending && pending->file != file) pending = pending->next;
        if (pending) finish(pending);
        pthread_mutex_unlock(&guard);
        if (!pending) return;
        MPI_Grequest_complete(pending->request);
    }
}

int transfer_start(struct file *file, enum direction direction, int64_t at, void *buffer,
                   MPI_Count count, MPI_Datatype type, struct pending **started) {
    struct pending *pending = calloc(1, sizeof *pending);
    if (!pending) abort();
    pending->direction = direction;
    pending->request = MPI_REQUEST_NULL;
    pending->staged =
        (struct staged){.buffer = buffer, .count = count, .type = type, .own = MPI_DATATYPE_NULL};
    int code;
    if (file->complete_at_start || file->atomic || file->shown.listed) {
        code = transfer(file, direction, at, buffer, count, type, &pending->moved);
    } else {
        struct staged *staged = &pending->staged;
        code = stage(file, direction, at, staged);
        if (code == MPI_SUCCESS && staged->bytes > 0) {
            keep_type(staged);
            pending->call =
                direction == READING
                    ? braid_pread_start(file->seen, staged->memory, (size_t)staged->bytes, at)
                    : braid_pwrite_start(file->seen, staged->memory, (size_t)staged->bytes, at);
            if (!pending->call) code = error_of_errno(file->path);
        }
        if (!pending->call) code = unstage(file, direction, staged, code, 0);
    }
    if (code != MPI_SUCCESS) {
        free(pending);
        return code;
    }
    pending->file = file;
    hold_file(file);
    if (pending->call) append(pending);
    *started = pending;
    return MPI_SUCCESS;
}

static int query(void *extra, MPI_Status *status) {
    struct pending *pending = extra;
    give_status(status, pending->moved);
    status->MPI_SOURCE = MPI_UNDEFINED;
    status->MPI_TAG = MPI_UNDEFINED;
    /* The file's error handler is called while the file is open. What MPI_Wait does is up to the
     * MPI. */
    return pending->file->handle == MPI_FILE_NULL ? pending->code
                                                  : failed(pending->file, pending->code);
}

/* Also for a request that the program frees early (MPICH): its memory belongs to the program
 * again. */
static int release(void *extra) {
    struct pending *pending = extra;
    pthread_mutex_lock(&guard);
    finish(pending);
    pthread_mutex_unlock(&guard);
    drop_file(pending->file);
    free(pending);
    return MPI_SUCCESS;
}

static int cancel(void *extra, int complete) {
    (void)extra, (void)complete;
    return MPI_SUCCESS; /* pending calls cannot be cancelled */
}

#if defined OPEN_MPI || defined MPICH_VERSION
static int is_over(void) {
    struct pending *over[POLLED_MAX];
    int count = 0, looked = 0;
    /* The thread with the lock does it: our own calls of the MPI may lead here again. */
    if (!__atomic_load_n(&first, __ATOMIC_RELAXED) || pthread_mutex_trylock(&guard)) return 0;
    for (struct pending *pending = first, *next; pending && looked < POLLED_MAX;
         pending = next, looked++) {
        next = pending->next;
        if (pending->request == MPI_REQUEST_NULL || !braid_test(pending->call)) continue;
        finish(pending);
        over[count++] = pending;
    }
    pthread_mutex_unlock(&guard);
    for (int at = 0; at < count; at++) MPI_Grequest_complete(over[at]->request);
    return count;
}
#endif

#ifdef OPEN_MPI
static void ask_in_progress(void) { opal_progress_register(is_over); }

static int start(struct pending *pending, MPI_Request *request) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, ask_in_progress);
    return MPI_Grequest_start(query, release, cancel, pending, request);
}
#elif defined MPICH_VERSION
static int poll(void *extra, MPI_Status *status) {
    struct pending *pending = extra;
    (void)status;
    pthread_mutex_lock(&guard);
    int is_over = pending->call && braid_test(pending->call) && finish(pending);
    pthread_mutex_unlock(&guard);
    return is_over ? MPI_Grequest_complete(pending->request) : MPI_SUCCESS;
}

/* Sleeps, for a thread that only waits. */
static int wait_all(int count, void **extras, double timeout, MPI_Status *status) {
    (void)timeout, (void)status;
    int code = MPI_SUCCESS;
    for (int at = 0; at < count && code == MPI_SUCCESS; at++) {
        struct pending *pending = extras[at];
        pthread_mutex_lock(&guard);
        int is_over = finish(pending);
        pthread_mutex_unlock(&guard);
        if (is_over) code = MPI_Grequest_complete(pending->request);
    }
    return code;
}

static int start(struct pending *pending, MPI_Request *request) {
    return MPIX_Grequest_start(query, release, cancel, poll, wait_all, pending, request);
}

/* The one function with which MPICH 4.0 does not poll. */
PUBLIC int PMPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status)
    __attribute__((alias("MPI_Request_get_status")));
PUBLIC int MPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status) {
    is_over();
    return ((__typeof__(&PMPI_Request_get_status))real_function("PMPI_Request_get_status"))(
        request, flag, status);
}
#else
static int start(struct pending *pending, MPI_Request *request) {
    return MPI_Grequest_start(query, release, cancel, pending, request);
}
#endif

int request_of(struct pending *pending, MPI_Request *request) {
    MPI_Request made;
    pthread_mutex_lock(&guard);
    int is_over = !pending->call;
    pthread_mutex_unlock(&guard);
    int code = is_over ? MPI_Grequest_start(query, release, cancel, pending, &made)
                       : start(pending, &made);
    if (code != MPI_SUCCESS) {
        release(pending);
        return code;
    }
    *request = made;
    pthread_mutex_lock(&guard);
    pending->request = made;
    pthread_mutex_unlock(&guard);
    return is_over ? MPI_Grequest_complete(made) : MPI_SUCCESS;
}

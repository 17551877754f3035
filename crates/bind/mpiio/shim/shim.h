/* MPI-IO over libbraid by interposition: the declarations that the files of the shim share.
 *
 *   program ── MPI_File_write_all ──> here ── a file of ours? ── yes ──> views, libbraid
 *                                                  └── no ──> the MPI's own function (RTLD_NEXT)
 *
 * 1. A file of ours has a real MPI_File as its handle, opened on /dev/null. So Fortran handles,
 *    error handlers and all other functions that do no I/O work on it. Every function that does I/O
 *    is defined here: a missing one would read and write /dev/null. tests/symbols.rs checks that.
 * 2. Every function is defined as MPI_File_x and as PMPI_File_x: Fortran bindings call one of them.
 * 3. A file view whose datatype is regular is never expanded into a list (types.c). */
#ifndef BRAID_MPIIO_SHIM_H
#define BRAID_MPIIO_SHIM_H

#include "rule.h"

#include <braid.h>
#include <mpi.h>
#include <pthread.h>

#define PUBLIC __attribute__((visibility("default")))

/* Defines MPI_File_name and PMPI_File_name with one body. */
#define DEFINE(name, ...)                                                               \
    PUBLIC int PMPI_File_##name(__VA_ARGS__) __attribute__((alias("MPI_File_" #name))); \
    PUBLIC int MPI_File_##name(__VA_ARGS__)

/* The MPI's own function. */
#define REAL(name) ((__typeof__(&PMPI_File_##name))real_function("PMPI_File_" #name))

enum data_representation { NATIVE, EXTERNAL32 };
enum split {
    NO_SPLIT,
    READ_AT_ALL,
    WRITE_AT_ALL,
    READ_ALL,
    WRITE_ALL,
    READ_ORDERED,
    WRITE_ORDERED
};

/* The method of collective calls: by the rule, by the I/O daemons, or each rank by itself. */
enum collective_mode { BY_RULE, BY_SERVER, BY_LIST };

/* What a file type shows: a view, or a list for a type that shows a byte twice, or nothing. The
 * average length of its pieces, and the number of entries of its lists. `once`: for a type of which
 * only one copy can be shown, the bytes of that copy; otherwise the maximum. The start of the first
 * copy in the file, the distance of copies, and the bytes that each shows. */
struct shown {
    struct braid_view *view;
    struct listed *listed;
    int64_t piece_bytes, entries, once;
    int64_t first, extent, bytes;
};

/* Whether ranks can write the same byte through their views: not checked, no, perhaps. */
enum overlap { NOT_CHECKED, DISJOINT, POSSIBLE };

enum { VIEWS_AGREED = 9 };

/* An open file. */
struct file {
    struct file *next;
    MPI_File handle;
    MPI_Comm comm;
    int rank, size, amode, atomic;
    char *path;
    /* Descriptors of the whole file and of its view; -1 if the view is not one of libbraid. */
    int whole, seen;
    struct shown shown;
    MPI_Offset displacement;
    MPI_Datatype etype, filetype;
    MPI_Count etype_bytes;
    enum data_representation representation;
    /* The individual pointer, in bytes of the view's stream, and the lock for it. */
    int64_t position;
    pthread_mutex_t moving;
    /* The file that stores the shared pointer, -1 until it is used; whether this rank may have
     * created it; and the lock for it within this rank. */
    char *shared_path;
    int shared, uses_shared;
    pthread_mutex_t sharing;
    /* Serializes transfers of this rank in atomic mode. */
    pthread_mutex_t excluding;
    enum split split;
    int64_t split_bytes;
    MPI_Info info;
    /* What the ranks have agreed on for collective calls, and the group for their exchanges. */
    enum collective_mode mode;
    /* What the ranks last agreed on about their views. */
    long long agreed[VIEWS_AGREED];
    /* The minimum of all ranks' average piece lengths. */
    int64_t piece_bytes;
    int lists_are_long;
    enum overlap overlap;
    /* All views start at or before this offset: from here on each copy of a view equals the one
     * before. */
    int64_t all_begun;
    struct braid_group *group;
    /* For `auto`: the costs of reads and writes so far. During a call together: the rule that gets
     * the reports, and the bytes that this rank asks for. */
    struct rule rules[2], *updated_rule;
    int64_t asked;
    /* Whether this rank has written since it last synced. */
    int dirty;
    /* Whether nonblocking calls complete when they are started; and the number of users of this
     * struct: itself while it is open, and requests. */
    int complete_at_start, users;
};

/* open.c: the descriptor of the cluster, or -1. */
int cluster_of_process(void);

/* names.c: the path if the name is ours, to be freed; NULL for other names. */
char *path_of(const char *name);
char *path_of_all(MPI_Comm comm, const char *name);
int names_server(const char *path);

/* open.c: reference counting of a file. */
void hold_file(struct file *file);
void drop_file(struct file *file);

/* files.c */
void *real_function(const char *name);
struct file *ours(MPI_File handle);
void remember(struct file *file);
void forget(struct file *file);

/* errors.c: all return an error code; `failed` calls the file's error handler first. */
int error_of(int class, const char *what, const char *why);
int error_of_errno(const char *what);
int failed(struct file *file, int code);
/* The first failure of any rank, for all ranks. */
int agreed(struct file *file, int code);
/* The same, and whether the flag is set on any rank. */
int agreed_with(struct file *file, int code, int *any);

/* types.c */
int view_of(MPI_Offset displacement, MPI_Datatype filetype, int once, struct shown *shown);
int is_contiguous(MPI_Datatype type);
int is_named(MPI_Datatype type);

/* listed.c: file types that show a byte twice, for reading only. Positions are in bytes of the
 * view's stream. */
int listed_of(MPI_Offset displacement, MPI_Datatype type, struct listed **listed);
int listed_is_past_all(const struct listed *listed, int64_t at);
int64_t listed_to_file(const struct listed *listed, int64_t at);
int64_t listed_bytes_below(const struct listed *listed, int64_t offset);
void listed_range(const struct listed *listed, int64_t at, int64_t bytes, int64_t *first,
                  int64_t *length);
int listed_read(struct file *file, int64_t at, char *memory, int64_t bytes, int64_t *moved);

/* The memory of a call, for libbraid: packed if it is not one range in the file's representation.
 * `own`: a datatype that the call must free. */
struct staged {
    void *buffer;
    MPI_Count count;
    MPI_Datatype type, own;
    char *memory, *packed;
    int64_t bytes;
};

enum direction { READING, WRITING };

/* transfer.c: `at` is in bytes of the view's stream; `moved` gets a number of bytes. The error
 * handler is not called. All ranks call `transfer_together`, also a rank that has failed: `code` is
 * its failure. */
int transfer(struct file *file, enum direction direction, int64_t at, void *buffer, MPI_Count count,
             MPI_Datatype type, int64_t *moved);
int transfer_together(struct file *file, enum direction direction, int code, int64_t at,
                      void *buffer, MPI_Count count, MPI_Datatype type, int64_t *moved);
int stage(struct file *file, enum direction direction, int64_t at, struct staged *staged);
int unstage(struct file *file, enum direction direction, struct staged *staged, int code,
            int64_t moved);
/* For a call that continues when the program may have freed its datatype. */
void keep_type(struct staged *staged);
int bytes_of(struct file *file, MPI_Count count, MPI_Datatype type, int64_t *bytes);
int at_of(struct file *file, MPI_Offset offset, int64_t *at);
void give_status(MPI_Status *status, int64_t bytes);

/* background.c: whether this MPI's progress engine can poll our calls; a started call and its
 * request; waiting for all pending calls of a file. */
struct pending;
int can_be_asked(void);
int transfer_start(struct file *file, enum direction direction, int64_t at, void *buffer,
                   MPI_Count count, MPI_Datatype type, struct pending **started);
int request_of(struct pending *pending, MPI_Request *request);
void finish_all(struct file *file);

/* shared.c: the shared pointer, in bytes of the view's stream: fetch and add `bytes`. If no rank
 * uses it, it is at 0 and has no file. Only an exchange of all ranks can show that (`agreed_with`).
 * */
int shared_fetch_add(struct file *file, int64_t bytes, int64_t *at);
int shared_set(struct file *file, int64_t at);
int uses_shared(const struct file *file);
int ordered_at(struct file *file, int64_t bytes, int64_t *at);

/* together.c: all ranks call `agree_on_mode`; `wanted` is -1 on a rank without the hint. All ranks
 * call `choose_method` once for each collective call, and then `record_cost`, unless the call fails
 * first. */
void agree_on_mode(struct file *file, int wanted);
void forget_costs(struct file *file);
int mode_of(const char *name);
const char *name_of_mode(enum collective_mode mode);
enum method choose_method(struct file *file, enum direction direction, int64_t bytes);
int64_t nanoseconds(void);
void record_cost(struct file *file, enum direction direction, enum method method, int64_t bytes,
                 int64_t nanoseconds);
int all_gather(void *file, const void *mine, size_t bytes, void *all);
int move_together(struct file *file, enum direction direction, int64_t at, char *memory,
                  int64_t bytes, int64_t *moved);
void refuse_together(struct file *file, int code);

/* info.c: called by all ranks when the view is set. `mode`: the collective mode if no hint names
 * one, or NULL. */
void take_hints(struct file *file, MPI_Info info, const char *mode);
void take_nonblocking(struct file *file, const char *how);
void layout_hints(MPI_Info info, struct braid_layout *layout);
mode_t permissions_hint(MPI_Info info);
void take_permissions(struct file *file, MPI_Info info);

/* view.c: `set_view` also sets the default view, of bytes. `place_of` returns the file offset of a
 * position of the view's stream, for a view that shows something. `bytes_below` returns the number
 * of bytes of the stream below a file offset. */
int set_view(struct file *file, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype,
             enum data_representation representation);
void drop_view(struct file *file);
int place_of(const struct file *file, int64_t at, int64_t *place);
int64_t bytes_below(const struct file *file, int64_t offset);
int shows_nothing(const struct file *file);

#endif

/* MPI-IO over libbraid by interposition: what the files of the shim share.
 *
 *   program ── MPI_File_write_all ──> here ── a file of ours? ── yes ──> views, libbraid
 *                                                  └── no ──> the MPI's own (RTLD_NEXT)
 *
 * 1. A file of ours has a real MPI_File as its handle, opened on /dev/null: handles of Fortran, error handlers and all else that
 *    knows nothing of files works on it as it is. Every function that does I/O is defined here: one that was not would read and
 *    write /dev/null. tests/symbols.rs looks at that.
 * 2. Every function is defined as MPI_File_x and as PMPI_File_x: bindings for Fortran call the one or the other.
 * 3. A file view is never expanded into a list where its datatype is regular (types.c). */
#ifndef BRAID_MPIIO_SHIM_H
#define BRAID_MPIIO_SHIM_H

#include "rule.h"

#include <braid.h>
#include <mpi.h>
#include <pthread.h>

#define PUBLIC __attribute__((visibility("default")))

/* Defines MPI_File_name and PMPI_File_name, one body. */
#define DEFINE(name, ...)                                                                                  \
    PUBLIC int PMPI_File_##name(__VA_ARGS__) __attribute__((alias("MPI_File_" #name)));                    \
    PUBLIC int MPI_File_##name(__VA_ARGS__)

/* The MPI's own function. */
#define REAL(name) ((__typeof__(&PMPI_File_##name))real_function("PMPI_File_" #name))

enum data_representation { NATIVE, EXTERNAL32 };
enum split { NO_SPLIT, READ_AT_ALL, WRITE_AT_ALL, READ_ALL, WRITE_ALL, READ_ORDERED, WRITE_ORDERED };

/* Who carries collective calls out: libbraid's rule, the I/O daemons, each rank by itself. */
enum way { BY_RULE, BY_SERVER, BY_LIST };

/* What a file type shows: a view, or the list of a type that shows a byte twice, or nothing; how long its pieces are on average, and
 * how many entries its lists have; and of what lies at most one copy can be shown, how many bytes that is, else the most. Where in the file the
 * first copy of a view begins, how far apart copies are, and how many bytes each shows. */
struct shown {
    struct braid_view *view;
    struct listed *listed;
    int64_t piece_bytes, entries, once;
    int64_t first, extent, bytes;
};

/* Whether ranks can write the same byte through their views: nobody has looked, no, perhaps. */
enum overlap { NOT_LOOKED_AT, APART, PERHAPS };

enum { VIEWS_AGREED = 9 };

/* An open file. */
struct file {
    struct file *next;
    MPI_File handle;
    MPI_Comm comm;
    int rank, size, amode, atomic;
    char *path;
    /* The whole file, and what the view shows of it; -1 where it is no view of libbraid. */
    int whole, seen;
    struct shown shown;
    MPI_Offset displacement;
    MPI_Datatype etype, filetype;
    MPI_Count etype_bytes;
    enum data_representation representation;
    /* The individual pointer, in bytes of the view's stream; and who may move it. */
    int64_t position;
    pthread_mutex_t moving;
    /* The file that keeps the shared pointer, -1 until it is used; whether this rank may have made it; and who of this rank may move it. */
    char *shared_path;
    int shared, uses_shared;
    pthread_mutex_t sharing;
    /* Who of this rank moves bytes in atomic mode. */
    pthread_mutex_t excluding;
    enum split split;
    int64_t split_bytes;
    MPI_Info info;
    /* What the ranks agree on for collective calls, and the group in which they meet. */
    enum way way;
    /* What the ranks agreed on of their views, the last time. */
    long long agreed[VIEWS_AGREED];
    /* The least of all ranks, on average in a view. */
    int64_t piece_bytes;
    int lists_are_long;
    enum overlap overlap;
    /* Every view begins at or before it: from there on each copy of one is like the one before. */
    int64_t all_begun;
    struct braid_group *group;
    /* Of `auto`: what is known of reads and writes; in a call that is made together, whose rule hears of it, and what this rank asks for. */
    struct rule rules[2], *hears;
    int64_t asked;
    /* Whether this rank wrote since it last synced. */
    int dirty;
    /* Whether nonblocking calls are over when they are started; and who holds the file's memory: itself while it is open, requests. */
    int at_once, users;
};

/* open.c: the descriptor of the cluster, or -1. */
int cluster_of_process(void);

/* names.c: the path of a name that is ours, to be freed; NULL for others. */
char *path_of(const char *name);
char *path_of_all(MPI_Comm comm, const char *name);
int names_server(const char *path);

/* open.c: the memory of a file. */
void hold_file(struct file *file);
void drop_file(struct file *file);

/* files.c */
void *real_function(const char *name);
struct file *ours(MPI_File handle);
void remember(struct file *file);
void forget(struct file *file);

/* errors.c: all return an error code; `failed` has the file's error handler called first. */
int error_of(int class, const char *what, const char *why);
int error_of_errno(const char *what);
int failed(struct file *file, int code);
/* The first failure of any task, for all of them. */
int agreed(struct file *file, int code);
/* The same, and whether it is so on any of them. */
int agreed_with(struct file *file, int code, int *any);

/* types.c */
int view_of(MPI_Offset displacement, MPI_Datatype filetype, int once, struct shown *shown);
int is_contiguous(MPI_Datatype type);
int is_named(MPI_Datatype type);

/* listed.c: file types that show a byte twice, for reading only; positions in bytes of the view's stream. */
int listed_of(MPI_Offset displacement, MPI_Datatype type, struct listed **listed);
int listed_is_past_all(const struct listed *listed, int64_t at);
int64_t listed_to_file(const struct listed *listed, int64_t at);
int64_t listed_bytes_below(const struct listed *listed, int64_t offset);
void listed_range(const struct listed *listed, int64_t at, int64_t bytes, int64_t *first, int64_t *length);
int listed_read(struct file *file, int64_t at, char *memory, int64_t bytes, int64_t *moved);

/* What a call moves: the memory as libbraid takes it, packed where it is not one run in the file's representation; `own`: a type that is
 * the call's. */
struct staged {
    void *buffer;
    MPI_Count count;
    MPI_Datatype type, own;
    char *memory, *packed;
    int64_t bytes;
};

enum direction { READING, WRITING };

/* transfer.c: `at` in bytes of the view's stream; `moved` gets bytes. No error handler is called. `transfer_together` is of all ranks:
 * also one that has failed, whose `code` says so, calls it. */
int transfer(struct file *file, enum direction direction, int64_t at, void *buffer, MPI_Count count, MPI_Datatype type,
             int64_t *moved);
int transfer_together(struct file *file, enum direction direction, int code, int64_t at, void *buffer, MPI_Count count,
                      MPI_Datatype type, int64_t *moved);
int stage(struct file *file, enum direction direction, int64_t at, struct staged *staged);
int unstage(struct file *file, enum direction direction, struct staged *staged, int code, int64_t moved);
/* For a call that goes on when the program may have freed its type. */
void keep_type(struct staged *staged);
int bytes_of(struct file *file, MPI_Count count, MPI_Datatype type, int64_t *bytes);
int at_of(struct file *file, MPI_Offset offset, int64_t *at);
void give_status(MPI_Status *status, int64_t bytes);

/* background.c: whether this MPI's progress can be asked to look after calls; a call that is started, and its request; what is under
 * way of a file. */
struct pending;
int can_be_asked(void);
int transfer_start(struct file *file, enum direction direction, int64_t at, void *buffer, MPI_Count count, MPI_Datatype type,
                   struct pending **started);
int request_of(struct pending *pending, MPI_Request *request);
void finish_all(struct file *file);

/* shared.c: the shared pointer, in bytes of the view's stream; fetched, and moved on by `bytes`. Where no rank uses it, it is at 0 and has
 * no file: only what all ranks know of each other says that (`agreed_with`). */
int shared_fetch_add(struct file *file, int64_t bytes, int64_t *at);
int shared_set(struct file *file, int64_t at);
int uses_shared(const struct file *file);
int ordered_at(struct file *file, int64_t bytes, int64_t *at);

/* together.c: `agree_on_way` is of all ranks, `wanted` -1 where a rank gives no hint. `who_calls` once for each collective call, on all
 * ranks; then, unless it fails before, what it took. */
void agree_on_way(struct file *file, int wanted);
void forget_costs(struct file *file);
int way_of(const char *name);
const char *name_of_way(enum way way);
enum who who_calls(struct file *file, enum direction direction, int64_t bytes);
int64_t nanoseconds(void);
void learn_from(struct file *file, enum direction direction, enum who who, int64_t bytes, int64_t nanoseconds);
int all_gather(void *file, const void *mine, size_t bytes, void *all);
int move_together(struct file *file, enum direction direction, int64_t at, char *memory, int64_t bytes, int64_t *moved);
void refuse_together(struct file *file, int code);

/* info.c: of all ranks, when the view is set. `way`: what holds where no hint says who carries collective calls out, or NULL. */
void take_hints(struct file *file, MPI_Info info, const char *way);
void take_nonblocking(struct file *file, const char *how);
void layout_hints(MPI_Info info, struct braid_layout *layout);
mode_t permissions_hint(MPI_Info info);
void take_permissions(struct file *file, MPI_Info info);

/* view.c: `set_view` for the default view, of bytes, too. Where in the file the byte at a position of the view's stream lies, of a view
 * that shows something; and how many bytes of the stream are below an offset of the file. */
int set_view(struct file *file, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype,
             enum data_representation representation);
void drop_view(struct file *file);
int place_of(const struct file *file, int64_t at, int64_t *place);
int64_t bytes_below(const struct file *file, int64_t offset);
int shows_nothing(const struct file *file);

#endif

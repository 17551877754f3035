/* Ranks that share a file by MPI-IO, timed:
 * share FILE SHAPE BYTES HOW READ_SEED WRITE_SEED [HINT=VALUE]...
 *
 * HOW is `collective`, `independent`, or `calls`: independent calls of 4 MiB, the first of which is
 * made once before the time measurement to open connections. With a READ_SEED other than 0 the
 * ranks read their parts and check that a run with this WRITE_SEED wrote them; with a WRITE_SEED
 * they write them. Rank 0 prints {"bytes": of all ranks, "read": seconds, "write": seconds}.
 *
 * 1. The content of a part is computed extent by extent from the shape, without datatypes, so that
 *    a wrong view is detected.
 * 2. All ranks sleep until a common start time; a time is from there to the end of the last rank's
 *    call.
 * 3. Ranks that are done sleep until the others are, so that they use no processor. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { GRID = 2, NUMBER = 8, DEALT = 32, TURN = 4096, CALL = 4 << 20 };

static int rank, ranks;

static void must(int code, const char *what) {
    char why[MPI_MAX_ERROR_STRING + 1] = "";
    int length;
    if (code == MPI_SUCCESS) return;
    MPI_Error_string(code, why, &length);
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
}
#define OK(call) must(call, #call)

static void wrong(const char *what) {
    fprintf(stderr, "rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* This rank's part of the file: `count` extents of `piece` bytes, the n-th at `where(n)`; and the
 * same as an MPI view. */
struct part {
    int64_t piece, count;
    int64_t (*where)(int64_t piece);
    MPI_Offset displacement;
    MPI_Datatype view;
};

static int64_t total, rows, columns;

static int64_t in_turn_at(int64_t piece) { return (piece * ranks + rank) * TURN; }
static int64_t block_at(int64_t piece) { return rank * (total / ranks) + piece; }
static int64_t start_at(int64_t piece) { return piece; }
static int64_t tile_at(int64_t piece) {
    int64_t row = rank / GRID * (rows / GRID) + piece;
    return (row * columns + rank % GRID * (columns / GRID)) * NUMBER;
}
static int64_t dealt_at(int64_t piece) {
    int64_t across = columns / DEALT / GRID, row = piece / across, column = piece % across;
    int64_t of_array = (row / DEALT * GRID + rank / GRID) * DEALT + row % DEALT;
    return (of_array * columns + (column * GRID + rank % GRID) * DEALT) * NUMBER;
}

static struct part in_turn(void) {
    struct part part = {TURN, total / ranks / TURN, in_turn_at, (MPI_Offset)rank * TURN, MPI_BYTE};
    OK(MPI_Type_vector((int)part.count, TURN, ranks * TURN, MPI_BYTE, &part.view));
    return part;
}

static struct part contiguous(void) {
    return (struct part){total / ranks, 1, block_at, rank * (total / ranks), MPI_BYTE};
}

static struct part one_rank(void) {
    return (struct part){total / ranks, rank == 0, start_at, 0, MPI_BYTE};
}
static struct part same_bytes(void) {
    return (struct part){total / ranks, 1, start_at, 0, MPI_BYTE};
}

static void grid(void) {
    if (ranks != GRID * GRID) wrong("tiles are of 4 ranks");
}

static struct part tiles(void) {
    grid();
    int sizes[2] = {(int)rows, (int)columns}, tile[2] = {(int)rows / GRID, (int)columns / GRID};
    int starts[2] = {rank / GRID * tile[0], rank % GRID * tile[1]};
    struct part part = {tile[1] * NUMBER, tile[0], tile_at, 0, MPI_DOUBLE};
    OK(MPI_Type_create_subarray(2, sizes, tile, starts, MPI_ORDER_C, MPI_DOUBLE, &part.view));
    return part;
}

static struct part block_cyclic(void) {
    grid();
    int sizes[2] = {(int)rows, (int)columns};
    int how[2] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_CYCLIC};
    int blocks[2] = {DEALT, DEALT}, grid[2] = {GRID, GRID};
    int64_t count = rows / GRID * (columns / GRID / DEALT);
    struct part part = {DEALT * NUMBER, count, dealt_at, 0, MPI_DOUBLE};
    OK(MPI_Type_create_darray(ranks, rank, 2, sizes, how, blocks, grid, MPI_ORDER_C, MPI_DOUBLE,
                              &part.view));
    return part;
}

static struct part part_of(const char *shape) {
    static const struct {
        const char *name;
        struct part (*make)(void);
    } shapes[] = {{"in_turn", in_turn},   {"contiguous", contiguous},
                  {"tiles", tiles},       {"block_cyclic", block_cyclic},
                  {"one_rank", one_rank}, {"same_bytes", same_bytes}};
    for (size_t at = 0; at < sizeof shapes / sizeof *shapes; at++)
        if (!strcmp(shapes[at].name, shape)) return shapes[at].make();
    wrong("there is no such shape");
    exit(2);
}

/* The number that a writer with this seed writes at an offset of the file, a multiple of 8. */
static uint64_t number_at(int64_t place, uint64_t seed) {
    return ((uint64_t)place / NUMBER + 1) * 0x9e3779b97f4a7c15u ^ seed * 0xbf58476d1ce4e5b9u;
}

static void fill(const struct part *part, uint64_t *memory, uint64_t seed) {
    for (int64_t piece = 0; piece < part->count; piece++)
        for (int64_t at = 0, first = part->where(piece); at < part->piece; at += NUMBER)
            *memory++ = number_at(first + at, seed);
}

static void check(const struct part *part, const uint64_t *memory, uint64_t seed) {
    for (int64_t piece = 0; piece < part->count; piece++)
        for (int64_t at = 0, first = part->where(piece); at < part->piece; at += NUMBER)
            if (*memory++ != number_at(first + at, seed))
                wrong("the bytes read differ from those written");
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void sleep_until(double moment) {
    struct timespec time = {(time_t)moment, (long)((moment - (double)(time_t)moment) * 1e9)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) != 0) {}
}

/* Waits for the others without polling for them. */
static void meet(void) {
    MPI_Request request;
    int all_are_here = 0;
    OK(MPI_Ibarrier(MPI_COMM_WORLD, &request));
    for (;;) {
        OK(MPI_Test(&request, &all_are_here, MPI_STATUS_IGNORE));
        if (all_are_here) return;
        sleep_until(now() + 0.001);
    }
}

static double begin_together(void) {
    meet();
    double moment = now() + 0.05;
    OK(MPI_Bcast(&moment, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD));
    sleep_until(moment);
    return moment;
}

/* Seconds until the last rank was done. */
static double took(double begin) {
    double mine = now() - begin, all;
    meet();
    OK(MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
    return all;
}

/* A rank's bytes in memory, and the size of its calls. */
struct transfer {
    MPI_File file;
    char *memory;
    int bytes, call, is_collective;
};

static void read_at(const struct transfer *the, int at, int bytes) {
    MPI_Status status;
    int got;
    char *to = the->memory + at;
    if (the->is_collective)
        OK(MPI_File_read_at_all(the->file, at, to, bytes, MPI_BYTE, &status));
    else
        OK(MPI_File_read_at(the->file, at, to, bytes, MPI_BYTE, &status));
    MPI_Get_count(&status, MPI_BYTE, &got);
    if (got != bytes) wrong("a short read");
}

static void write_at(const struct transfer *the, int at, int bytes) {
    MPI_Status status;
    char *from = the->memory + at;
    if (the->is_collective)
        OK(MPI_File_write_at_all(the->file, at, from, bytes, MPI_BYTE, &status));
    else
        OK(MPI_File_write_at(the->file, at, from, bytes, MPI_BYTE, &status));
}

static double timed(const struct transfer *the, void (*move)(const struct transfer *, int, int)) {
    if (the->call < the->bytes) move(the, 0, the->call);
    double begin = begin_together();
    int at = 0;
    /* A rank without bytes takes part in a collective call too. */
    do move(the, at, the->bytes - at < the->call ? the->bytes - at : the->call);
    while ((at += the->call) < the->bytes);
    return took(begin);
}

static MPI_Info hints_of(int count, char **hints) {
    MPI_Info info;
    OK(MPI_Info_create(&info));
    for (int at = 0; at < count; at++) {
        char *value = strchr(hints[at], '=');
        if (!value) wrong("a hint without a value");
        *value = 0;
        OK(MPI_Info_set(info, hints[at], value + 1));
    }
    return info;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 7)
        wrong("share FILE SHAPE BYTES collective|independent|calls READ_SEED WRITE_SEED "
              "[HINT=VALUE]...");
    total = atoll(argv[3]);
    /* An array of this many numbers, as wide as it is high or twice as wide. */
    for (rows = 1; rows * rows * 4 <= total / NUMBER; rows *= 2) {}
    columns = total / NUMBER / rows;
    int is_collective = !strcmp(argv[4], "collective");
    uint64_t read_seed = strtoull(argv[5], NULL, 10), write_seed = strtoull(argv[6], NULL, 10);
    struct part part = part_of(argv[2]);
    int bytes = (int)(part.piece * part.count);
    int call = !strcmp(argv[4], "calls") && bytes > CALL ? CALL : bytes;
    uint64_t *memory = malloc((size_t)bytes + NUMBER);
    struct transfer transfer = {.memory = (char *)memory,
                                .bytes = bytes,
                                .call = call,
                                .is_collective = is_collective};
    memset(memory, 0xee, (size_t)bytes + NUMBER);
    MPI_Info hints = hints_of(argc - 7, argv + 7);
    int mode = MPI_MODE_RDWR | MPI_MODE_CREATE;
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], mode, hints, &transfer.file));
    if (part.view != MPI_BYTE) OK(MPI_Type_commit(&part.view));
    OK(MPI_File_set_view(transfer.file, part.displacement, MPI_BYTE, part.view, "native", hints));
    double times[2] = {0, 0};
    if (read_seed) {
        times[0] = timed(&transfer, read_at);
        check(&part, memory, read_seed);
    }
    if (write_seed) {
        fill(&part, memory, write_seed);
        times[1] = timed(&transfer, write_at);
    }
    OK(MPI_File_close(&transfer.file));
    long long mine = bytes, all;
    OK(MPI_Reduce(&mine, &all, 1, MPI_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD));
    if (rank == 0)
        printf("{\"bytes\": %lld, \"read\": %.6f, \"write\": %.6f}\n", all, times[0], times[1]);
    if (part.view != MPI_BYTE) MPI_Type_free(&part.view);
    MPI_Info_free(&hints);
    free(memory);
    MPI_Finalize();
    return 0;
}

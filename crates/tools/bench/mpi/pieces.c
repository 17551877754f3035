/* Collective calls of interleaved extents, by each method: pieces FILE PIECE CALL CALLS ROUNDS
 *
 * In each of CALLS calls, one after the other, the ranks write or read CALL bytes each. These bytes
 * are extents of PIECE bytes, of which each rank has every RANKS-th. There are three files, with
 * the hints braid_collective `list`, `server` and `auto`, used in turn in ROUNDS rounds; `server`
 * only in the first three rounds. Each file was written before.
 *
 * For writes and for reads rank 0 prints MB/s of all ranks for each method: the median of the
 * rounds, and for `auto` also the first round, in which it learns.
 *
 * A round's time is that of its slowest rank, from a barrier on. Waiting ranks poll, as MPIs do by
 * default. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WAYS = 3, SERVER = 1, AUTO = 2, ROUNDS_MAX = 64, SERVER_ROUNDS_MAX = 3, SPREAD = 16 << 20 };
static const char *const WAY[WAYS] = {"list", "server", "auto"};

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

static MPI_File open_with(const char *name, const char *way, int piece, int pieces) {
    MPI_File file;
    MPI_Info hints;
    MPI_Datatype vector, view;
    char path[4096];
    snprintf(path, sizeof path, "%s-%s", name, way);
    OK(MPI_Info_create(&hints));
    OK(MPI_Info_set(hints, "braid_collective", way));
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE, hints, &file));
    OK(MPI_Type_vector(pieces, piece, ranks * piece, MPI_BYTE, &vector));
    OK(MPI_Type_create_resized(vector, 0, (MPI_Aint)ranks * piece * pieces, &view));
    OK(MPI_Type_commit(&view));
    OK(MPI_File_set_view(file, (MPI_Offset)rank * piece, MPI_BYTE, view, "native", hints));
    MPI_Type_free(&vector);
    MPI_Type_free(&view);
    MPI_Info_free(&hints);
    return file;
}

/* Seconds of the slowest rank. */
static double round_of(MPI_File file, int writes, char *memory, int bytes, int calls) {
    int places = bytes < SPREAD ? SPREAD / bytes : 1;
    double mine, all;
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime();
    for (int call = 0; call < calls; call++) {
        MPI_Offset at = (MPI_Offset)(call % places) * bytes;
        if (writes) OK(MPI_File_write_at_all(file, at, memory, bytes, MPI_BYTE, MPI_STATUS_IGNORE));
        else OK(MPI_File_read_at_all(file, at, memory, bytes, MPI_BYTE, MPI_STATUS_IGNORE));
    }
    mine = MPI_Wtime() - begun;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
}

static int by_value(const void *a, const void *b) {
    double difference = *(const double *)a - *(const double *)b;
    return (difference > 0) - (difference < 0);
}

static void compare(MPI_File files[WAYS], int writes, char *memory, int bytes, int calls,
                    int rounds) {
    static double rates[WAYS][ROUNDS_MAX];
    int made[WAYS] = {0};
    for (int round = 0; round < rounds; round++)
        for (int way = 0; way < WAYS; way++) {
            if (way == SERVER && round >= SERVER_ROUNDS_MAX) continue;
            double seconds = round_of(files[way], writes, memory, bytes, calls);
            rates[way][made[way]++] = 1e-6 * bytes * ranks * calls / seconds;
        }
    double learning = rates[AUTO][0];
    for (int way = 0; way < WAYS; way++)
        qsort(rates[way], (size_t)made[way], sizeof **rates, by_value);
    if (rank != 0) return;
    printf("%s", writes ? "write" : "read ");
    for (int way = 0; way < WAYS; way++) printf("  %s %6.0f", WAY[way], rates[way][made[way] / 2]);
    printf("  first round of auto %6.0f\n", learning);
    fflush(stdout);
}

int main(int argc, char **argv) {
    MPI_File files[WAYS];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 6) return fprintf(stderr, "pieces FILE PIECE CALL CALLS ROUNDS\n"), 2;
    int piece = atoi(argv[2]), bytes = atoi(argv[3]), calls = atoi(argv[4]), rounds = atoi(argv[5]);
    if (piece < 1 || bytes < piece || rounds > ROUNDS_MAX)
        return fprintf(stderr, "pieces: PIECE is 1 to CALL, ROUNDS at most %d\n", ROUNDS_MAX), 2;
    int spread = bytes < SPREAD ? SPREAD : bytes;
    char *memory = malloc((size_t)spread);
    memset(memory, 'x' + rank % 2, (size_t)spread);
    for (int way = 0; way < WAYS; way++) {
        files[way] = open_with(argv[1], WAY[way], piece, bytes / piece);
        OK(MPI_File_write_at(files[way], 0, memory, spread, MPI_BYTE, MPI_STATUS_IGNORE));
    }
    for (int writes = 1; writes >= 0; writes--)
        compare(files, writes, memory, bytes, calls, rounds);
    for (int way = 0; way < WAYS; way++) OK(MPI_File_close(&files[way]));
    free(memory);
    MPI_Finalize();
    return 0;
}

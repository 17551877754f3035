/* Threads of a rank that share a handle (MPI_THREAD_MULTIPLE): `threads NAME braid:/path`, on 2
 * ranks. */
#include "check.h"
#include <pthread.h>

enum { THREADS = 2 };

static MPI_File file;

/* The number of a thread among the threads of all ranks. */
static int number_of(void *argument) { return rank * THREADS + *(int *)argument; }

static void each(void *(*work)(void *)) {
    pthread_t threads[THREADS];
    int numbers[THREADS];
    for (int at = 0; at < THREADS; at++) {
        numbers[at] = at;
        SAME(pthread_create(&threads[at], NULL, work, &numbers[at]), 0);
    }
    for (int at = 0; at < THREADS; at++) SAME(pthread_join(threads[at], NULL), 0);
    MPI_Barrier(MPI_COMM_WORLD);
}

enum { RECORDS = 60, RECORD_INTS = 25 };

static void *writes_records(void *argument) {
    int record[RECORD_INTS];
    for (int n = 0; n < RECORDS; n++) {
        for (int i = 0; i < RECORD_INTS; i++) record[i] = number_of(argument) * RECORDS + n;
        OK(MPI_File_write_shared(file, record, RECORD_INTS, MPI_INT, MPI_STATUS_IGNORE));
    }
    return NULL;
}

static void shared(void) {
    static int all[2 * THREADS * RECORDS][RECORD_INTS], seen[2 * THREADS * RECORDS];
    MPI_Offset at;
    MPI_Status status;
    int count;
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    each(writes_records);
    OK(MPI_File_get_position_shared(file, &at));
    SAME(at, sizeof all / sizeof(int));
    OK(MPI_File_read_at(file, 0, all, sizeof all / sizeof(int), MPI_INT, &status));
    MPI_Get_count(&status, MPI_INT, &count);
    SAME(count, sizeof all / sizeof(int));
    /* Each record once and complete. */
    for (int record = 0; record < 2 * THREADS * RECORDS; record++) {
        for (int i = 1; i < RECORD_INTS; i++) SAME(all[record][i], all[record][0]);
        SAME(all[record][0] >= 0 && all[record][0] < 2 * THREADS * RECORDS, 1);
        SAME(seen[all[record][0]]++, 0);
    }
}

enum { INTS = 300000, ROUNDS = 12 };

static void *writes_and_reads(void *argument) {
    int *memory = malloc(INTS * sizeof *memory), count;
    MPI_Request request;
    MPI_Status status;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < INTS; i++) memory[i] = number_of(argument) * ROUNDS + round;
        if (round % 2) {
            OK(MPI_File_write_at(file, 0, memory, INTS, MPI_INT, MPI_STATUS_IGNORE));
        } else {
            OK(MPI_File_iwrite_at(file, 0, memory, INTS, MPI_INT, &request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
        OK(MPI_File_read_at(file, 0, memory, INTS, MPI_INT, &status));
        MPI_Get_count(&status, MPI_INT, &count);
        SAME(count, INTS);
        /* All bytes are of one write. */
        for (int i = 1; i < INTS; i++) SAME(memory[i], memory[0]);
    }
    free(memory);
    return NULL;
}

static void atomic(void) {
    OK(MPI_File_set_atomicity(file, 1));
    each(writes_and_reads);
}

int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    SAME(argc, 3);
    SAME(size, 2);
    SAME(provided, MPI_THREAD_MULTIPLE);
    OK(MPI_File_open(MPI_COMM_WORLD, argv[2], MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL,
                     &file));
    if (!strcmp(argv[1], "shared")) shared();
    else atomic();
    OK(MPI_File_close(&file));
    if (rank == 0) printf("%s ok\n", argv[1]);
    MPI_Finalize();
    return 0;
}

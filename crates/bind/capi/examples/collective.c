/* Four tasks write one file together and read it back. Each has 512 bytes of every 2 KiB. The I/O
 * daemons get the requests of all tasks as one, so that they access every page once. The tasks are
 * threads here, which exchange bytes in memory between two barriers. In a program with MPI,
 * all_gather is MPI_Allgather; processes without MPI use braid_group_tcp. */
/* For pthread_barrier_t, which strict C does not have; before every header. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include <braid.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TASKS = 4, GROUP = 512, GROUPS = 128, PART = GROUP * GROUPS };

static int cluster;
static const char *path;
static pthread_barrier_t barrier;
static unsigned char gathered[65536];

struct task {
    int rank;
    size_t wrong;
};

static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, braid_error_message());
    exit(1);
}

static int all_gather(void *context, const void *mine, size_t bytes, void *all) {
    struct task *task = context;
    if (bytes * TASKS > sizeof gathered) return 1;
    memcpy(gathered + (size_t)task->rank * bytes, mine, bytes);
    pthread_barrier_wait(&barrier);
    memcpy(all, gathered, bytes * TASKS);
    pthread_barrier_wait(&barrier);
    return 0;
}

static void *work(void *argument) {
    struct task *task = argument;
    struct braid_group *group = braid_group_calling((uint32_t)task->rank, TASKS, all_gather, task);
    struct braid_view *view = braid_view_strided((int64_t)task->rank * GROUP, GROUP, TASKS * GROUP);
    if (!group || !view) fail("group and view");
    int file = braid_open(cluster, path, O_RDWR, 0);
    if (file < 0 || braid_set_view(file, view) < 0) fail("open");

    unsigned char out[PART], in[PART];
    for (size_t at = 0; at < PART; at++)
        out[at] = (unsigned char)(task->rank * 61 + at * 7 + at / GROUP);
    if (braid_pwrite_all(file, group, out, PART, 0, BRAID_COLLECTIVE_AUTO) != PART) fail("write");
    if (braid_pread_all(file, group, in, PART, 0, BRAID_COLLECTIVE_AUTO) != PART) fail("read");
    for (size_t at = 0; at < PART; at++) task->wrong += in[at] != out[at];

    braid_view_free(view);
    braid_group_free(group);
    if (braid_close(file) < 0) fail("close");
    return NULL;
}

int main(int argc, char **argv) {
    path = argc > 1 ? argv[1] : "/collective";
    cluster = braid_connect(NULL, NULL);
    if (cluster < 0) fail("connect");
    int file = braid_creat(cluster, path, 0644);
    if (file < 0 || braid_close(file) < 0) fail("create");

    pthread_t threads[TASKS];
    struct task tasks[TASKS] = {{0, 0}};
    size_t wrong = 0;
    pthread_barrier_init(&barrier, NULL, TASKS);
    for (int rank = 0; rank < TASKS; rank++) {
        tasks[rank].rank = rank;
        if (pthread_create(&threads[rank], NULL, work, &tasks[rank]) != 0) abort();
    }
    for (int rank = 0; rank < TASKS; rank++) {
        pthread_join(threads[rank], NULL);
        wrong += tasks[rank].wrong;
    }
    printf("%d tasks wrote and read %d bytes together, %zu wrong\n", TASKS, TASKS * PART, wrong);
    if (braid_disconnect(cluster) < 0) fail("disconnect");
    return wrong != 0;
}

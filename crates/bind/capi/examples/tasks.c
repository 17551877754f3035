/* Four tasks, each with its own part of one file: task t sees 4 KiB in every 16 KiB (the 1996
 * paper's partition). Each writes its part in one call, which is one request to each I/O daemon.
 * Then the whole file is read and every byte checked. */
#include <braid.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TASKS = 4, GROUP = 4096, GROUPS = 64 };

static int file;

static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, braid_error_message());
    exit(1);
}

static unsigned char byte_of(int task, size_t at) {
    return (unsigned char)(task * 61 + at * 7 + at / GROUP);
}

static void *work(void *argument) {
    int task = *(int *)argument;
    struct braid_view *view = braid_view_strided((int64_t)task * GROUP, GROUP, TASKS * GROUP);
    if (!view) fail("view");
    int mine = braid_with_view(file, view);
    if (mine < 0) fail("set the view");
    braid_view_free(view);

    unsigned char *part = malloc(GROUPS * GROUP);
    for (size_t at = 0; at < GROUPS * GROUP; at++) part[at] = byte_of(task, at);
    if (braid_pwrite(mine, part, GROUPS * GROUP, 0) != GROUPS * GROUP) fail("write");
    free(part);
    if (braid_close(mine) < 0) fail("close");
    return NULL;
}

int main(int argc, char **argv) {
    int cluster = braid_connect(NULL, NULL);
    if (cluster < 0) fail("connect");
    file = braid_open(cluster, argc > 1 ? argv[1] : "/tasks", O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (file < 0) fail("open");

    pthread_t threads[TASKS];
    int numbers[TASKS];
    for (int task = 0; task < TASKS; task++) {
        numbers[task] = task;
        if (pthread_create(&threads[task], NULL, work, &numbers[task]) != 0) abort();
    }
    for (int task = 0; task < TASKS; task++) pthread_join(threads[task], NULL);

    size_t bytes = TASKS * GROUPS * GROUP, wrong = 0;
    unsigned char *all = malloc(bytes);
    if (braid_pread(file, all, bytes, 0) != (ssize_t)bytes) fail("read");
    for (size_t at = 0; at < bytes; at++) {
        int task = (int)(at / GROUP % TASKS);
        size_t position = at / (TASKS * GROUP) * GROUP + at % GROUP;
        wrong += all[at] != byte_of(task, position);
    }
    printf("%zu bytes of %d tasks, %zu wrong\n", bytes, TASKS, wrong);
    free(all);
    if (braid_close(file) < 0 || braid_disconnect(cluster) < 0) fail("close");
    return wrong != 0;
}

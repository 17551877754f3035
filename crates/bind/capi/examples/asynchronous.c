/* Nonblocking calls: the next block is read while the program sums this one; and a list of pieces
 * in one call. */
#include <braid.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1 << 20, BLOCKS = 8 };

static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, braid_error_message());
    exit(1);
}

int main(int argc, char **argv) {
    int cluster = braid_connect(NULL, NULL);
    if (cluster < 0) fail("connect");
    int file =
        braid_open(cluster, argc > 1 ? argv[1] : "/blocks", O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (file < 0) fail("open");

    static unsigned char out[BLOCKS][BLOCK], in[2][BLOCK];
    struct braid_request *writes[BLOCKS];
    unsigned long long expected = 0, sum = 0;
    for (int block = 0; block < BLOCKS; block++) {
        memset(out[block], block + 1, BLOCK);
        expected += (unsigned long long)(block + 1) * BLOCK;
        writes[block] = braid_pwrite_start(file, out[block], BLOCK, (int64_t)block * BLOCK);
        if (!writes[block]) fail("start a write");
    }
    for (int block = 0; block < BLOCKS; block++)
        if (braid_wait(writes[block]) != BLOCK) fail("write");

    struct braid_request *next = braid_pread_start(file, in[0], BLOCK, 0);
    for (int block = 0; block < BLOCKS; block++) {
        if (!next || braid_wait(next) != BLOCK) fail("read");
        if (block + 1 < BLOCKS)
            next =
                braid_pread_start(file, in[(block + 1) % 2], BLOCK, (int64_t)(block + 1) * BLOCK);
        for (int at = 0; at < BLOCK; at++) sum += in[block % 2][at];
    }

    /* The first byte of every block, the last one first: one request to each I/O daemon. */
    unsigned char firsts[BLOCKS];
    struct braid_piece pieces[BLOCKS];
    for (int at = 0; at < BLOCKS; at++)
        pieces[at] = (struct braid_piece){
            .offset = (int64_t)(BLOCKS - 1 - at) * BLOCK, .memory = &firsts[at], .bytes = 1};
    struct braid_request *list = braid_read_list_start(file, pieces, BLOCKS);
    if (!list) fail("start a list");
    while (braid_test(list) == 0) { /* the program computes */ }
    if (braid_wait(list) != BLOCKS) fail("read a list");
    int listed = 1;
    for (int at = 0; at < BLOCKS; at++) listed &= firsts[at] == BLOCKS - at;

    printf("sum %llu of %llu, list %s\n", sum, expected, listed ? "right" : "wrong");
    if (braid_close(file) < 0 || braid_disconnect(cluster) < 0) fail("close");
    return sum != expected || !listed;
}

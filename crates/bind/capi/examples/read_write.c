/* Writes and reads a file:
 * cc read_write.c $(pkg-config --cflags --libs braid) -o read_write && ./read_write /greeting */
#include <braid.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, braid_error_message());
    exit(1);
}

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : "/greeting";
    int cluster = braid_connect(NULL, NULL);
    if (cluster < 0) fail("connect");

    /* Stripes of 64 KiB; everything else as the directory has it. */
    struct braid_layout layout;
    braid_layout_init(&layout);
    layout.stripe_bytes = 65536;
    int file = braid_open_layout(cluster, path, O_RDWR | O_CREAT | O_TRUNC, 0644, &layout);
    if (file < 0) fail("open");

    const char text[] = "hello from C\n";
    if (braid_write(file, text, strlen(text)) < 0) fail("write");
    if (braid_fsync(file) < 0) fail("sync");

    char back[sizeof text] = "";
    if (braid_pread(file, back, sizeof back, 0) != (ssize_t)strlen(text)) fail("read");
    struct stat attributes;
    if (braid_fstat(file, &attributes) < 0) fail("stat");
    printf("%lld bytes: %s", (long long)attributes.st_size, back);

    if (braid_close(file) < 0) fail("close");
    if (braid_disconnect(cluster) < 0) fail("disconnect");
    return strcmp(back, text) != 0;
}

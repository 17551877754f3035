/* Tests of libbraid from C: `calls NAME` runs one and prints "NAME ok". */
#include <assert.h>
#include <braid.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#undef NDEBUG

static int cluster;

#define OK(call) check((long long)(call), #call, __LINE__)
#define FAILS(call, number) fails((long long)(call), number, #call, __LINE__)
#define SAME(a, b) same((long long)(a), (long long)(b), #a, __LINE__)

static long long check(long long result, const char *call, int line) {
    if (result < 0) {
        fprintf(stderr, "line %d: %s: %s (errno %d)\n", line, call, braid_error_message(), errno);
        exit(1);
    }
    return result;
}

static void fails(long long result, int number, const char *call, int line) {
    if (result >= 0 || errno != number || !*braid_error_message()) {
        fprintf(stderr, "line %d: %s is %lld, errno %d, '%s'\n", line, call, result, errno,
                braid_error_message());
        exit(1);
    }
}

static void same(long long a, long long b, const char *what, int line) {
    if (a != b) {
        fprintf(stderr, "line %d: %s is %lld and not %lld; %s\n", line, what, a, b,
                braid_error_message());
        exit(1);
    }
}

static void *made(void *pointer, int line) {
    if (!pointer) {
        fprintf(stderr, "line %d: %s (errno %d)\n", line, braid_error_message(), errno);
        exit(1);
    }
    return pointer;
}
#define MADE(call) made(call, __LINE__)

static unsigned char noise(size_t at) {
    return (unsigned char)((at * 2654435761u >> 7) + at / 251);
}

static void files(void) {
    int f = OK(braid_open(cluster, "/f", O_RDWR | O_CREAT | O_EXCL, 0640));
    FAILS(braid_open(cluster, "/f", O_RDWR | O_CREAT | O_EXCL, 0640), EEXIST);
    FAILS(braid_open(cluster, "/no/such", O_RDONLY, 0), ENOENT);
    SAME(braid_write(f, "begin", 5), 5);
    SAME(braid_lseek(f, 3000000, SEEK_END), 3000005);
    SAME(braid_size(f), 5);
    SAME(braid_write(f, "end", 3), 3);
    SAME(braid_lseek(f, -3, SEEK_CUR), 3000005);
    FAILS(braid_lseek(f, -4000000, SEEK_CUR), EINVAL);
    char buffer[16] = "";
    SAME(braid_read(f, buffer, sizeof buffer), 3);
    SAME(memcmp(buffer, "end", 3), 0);
    SAME(braid_read(f, buffer, sizeof buffer), 0);
    struct iovec out[3] = {{"ab", 2}, {NULL, 0}, {"cde", 3}};
    SAME(braid_pwritev(f, out, 3, 100), 5);
    char one[1], rest[8];
    struct iovec in[2] = {{one, 1}, {rest, 4}};
    SAME(braid_preadv(f, in, 2, 100), 5);
    SAME(one[0] == 'a' && !memcmp(rest, "bcde", 4), 1);
    SAME(braid_lseek(f, 0, SEEK_SET), 0);
    SAME(braid_writev(f, out, 3), 5);
    SAME(braid_readv(f, in, 2), 5);
    SAME(braid_lseek(f, 0, SEEK_CUR), 10);
    SAME(braid_pread(f, buffer, 5, 0), 5);
    SAME(memcmp(buffer, "abcde", 5), 0);
    OK(braid_ftruncate(f, 50));
    SAME(braid_size(f), 50);
    OK(braid_allocate(f, 0, 100, 1));
    SAME(braid_size(f), 50);
    OK(braid_allocate(f, 0, 100, 0));
    SAME(braid_size(f), 100);
    OK(braid_punch_hole(f, 0, 5));
    SAME(braid_pread(f, buffer, 1, 0), 1);
    SAME(buffer[0], 0);
    OK(braid_fsync(f));
    struct stat st;
    OK(braid_fstat(f, &st));
    SAME(st.st_size, 100);
    SAME(st.st_mode, S_IFREG | (0640 & ~022));
    OK(braid_close(f));
    FAILS(braid_close(f), EBADF);
    f = OK(braid_open(cluster, "/f", O_RDONLY, 0));
    FAILS(braid_write(f, "x", 1), EBADF);
    FAILS(braid_ftruncate(f, 1), EBADF);
    OK(braid_close(f));
    f = OK(braid_creat(cluster, "/f", 0600));
    FAILS(braid_read(f, buffer, 1), EBADF);
    SAME(braid_size(f), 0);
    OK(braid_close(f));
    f = OK(braid_open(cluster, "/made-by-a-reader", O_RDONLY | O_CREAT, 0644));
    SAME(braid_read(f, buffer, 1), 0);
    OK(braid_close(f));
    FAILS(braid_open(cluster, "/f", O_WRONLY | O_APPEND, 0), EOPNOTSUPP);
    FAILS(braid_open(cluster, "/f", O_RDONLY | O_TRUNC, 0), EINVAL);
    OK(braid_sync(cluster));
    /* Files outlive the descriptor of the cluster. */
    f = OK(braid_open(cluster, "/f", O_RDWR, 0));
    OK(braid_disconnect(cluster));
    FAILS(braid_sync(cluster), EBADF);
    SAME(braid_pwrite(f, "still", 5, 0), 5);
    OK(braid_close(f));
    FAILS(braid_open(cluster, "/f", O_RDWR, 0), EBADF);
}

/* POSIX open(2): the mode of a new file applies to later opens. As an ordinary user; root may open
 * anything. */
static void modes(void) {
    const char *lock = "/scratch/lock";
    struct stat st;
    char byte;
    int f = OK(braid_open(cluster, lock, O_RDONLY | O_CREAT | O_EXCL, 0));
    SAME(braid_read(f, &byte, 1), 0);
    FAILS(braid_write(f, "x", 1), EBADF);
    OK(braid_fstat(f, &st));
    SAME(st.st_mode, S_IFREG);
    FAILS(braid_open(cluster, lock, O_RDONLY | O_CREAT | O_EXCL, 0), EEXIST);
    FAILS(braid_open(cluster, lock, O_RDONLY | O_CREAT, 0), EACCES);
    FAILS(braid_open(cluster, lock, O_RDONLY, 0), EACCES);
    OK(braid_close(f));
    f = OK(braid_open(cluster, "/scratch/written", O_RDWR | O_CREAT, 0400));
    SAME(braid_write(f, "x", 1), 1);
    OK(braid_close(f));
    f = OK(braid_open(cluster, "/scratch/written", O_RDONLY | O_CREAT, 0));
    SAME(braid_read(f, &byte, 1), 1);
    OK(braid_close(f));
}

static void names(void) {
    struct stat st;
    OK(braid_mkdir(cluster, "/d", 0777));
    OK(braid_stat(cluster, "/d", &st));
    SAME(st.st_mode, S_IFDIR | 0755);
    char path[64];
    for (int i = 0; i < 300; i++) {
        snprintf(path, sizeof path, "/d/file%03d", i);
        OK(braid_close(OK(braid_creat(cluster, path, 0644))));
    }
    int d = OK(braid_opendir(cluster, "/d")), seen = 0;
    struct braid_dirent entry;
    uint64_t middle = 0;
    while (OK(braid_readdir(d, &entry)) == 1) {
        SAME(entry.kind, DT_REG);
        SAME(entry.name_bytes, 7);
        SAME(strncmp(entry.name, "file", 4), 0);
        if (++seen == 150) middle = entry.cookie;
    }
    SAME(seen, 300);
    OK(braid_seekdir(d, middle));
    for (seen = 0; OK(braid_readdir(d, &entry)) == 1; seen++) {}
    SAME(seen, 150);
    OK(braid_fstat(d, &st));
    SAME(S_ISDIR(st.st_mode), 1);
    OK(braid_closedir(d));
    FAILS(braid_opendir(cluster, "/d/file000"), ENOTDIR);
    OK(braid_link(cluster, "/d/file000", "/d/second"));
    OK(braid_stat(cluster, "/d/second", &st));
    SAME(st.st_nlink, 2);
    OK(braid_symlink(cluster, "file001", "/d/soft"));
    char target[16];
    SAME(braid_readlink(cluster, "/d/soft", target, sizeof target), 7);
    SAME(memcmp(target, "file001", 7), 0);
    SAME(braid_readlink(cluster, "/d/soft", target, 4), 4);
    OK(braid_lstat(cluster, "/d/soft", &st));
    SAME(S_ISLNK(st.st_mode), 1);
    OK(braid_chmod(cluster, "/d/soft", 0600));
    OK(braid_stat(cluster, "/d/file001", &st));
    SAME(st.st_mode & 07777, 0600);
    OK(braid_truncate(cluster, "/d/file001", 12345));
    struct timespec times[2] = {{1000, 5}, {.tv_nsec = UTIME_OMIT}};
    OK(braid_utimens(cluster, "/d/file001", times));
    OK(braid_stat(cluster, "/d/file001", &st));
    SAME(st.st_size, 12345);
    SAME(st.st_atim.tv_sec * 1000 + st.st_atim.tv_nsec, 1000005);
    SAME(st.st_mtim.tv_sec > 1000000, 1);
    OK(braid_utimens(cluster, "/d/file001", NULL));
    OK(braid_chown(cluster, "/d/file001", 4711, (gid_t)-1));
    OK(braid_stat(cluster, "/d/file001", &st));
    SAME(st.st_uid, 4711);
    OK(braid_access(cluster, "/d/file001", R_OK | W_OK));
    FAILS(braid_access(cluster, "/d/none", F_OK), ENOENT);
    OK(braid_rename(cluster, "/d/file001", "/d/file002"));
    FAILS(braid_stat(cluster, "/d/file001", &st), ENOENT);
    OK(braid_stat(cluster, "/d/file002", &st));
    SAME(st.st_size, 12345);
    FAILS(braid_rmdir(cluster, "/d"), ENOTEMPTY);
    FAILS(braid_unlink(cluster, "/d"), EISDIR);
    OK(braid_unlink(cluster, "/d/second"));
    OK(braid_mkdir(cluster, "/e", 0700));
    OK(braid_rmdir(cluster, "/e"));
    struct braid_space space;
    OK(braid_statfs(cluster, &space));
    SAME(space.iods_up, 1);
    SAME(space.total_bytes > space.available_bytes, 1);
}

static void layouts(void) {
    struct braid_layout layout, found;
    OK(braid_layout_init(&layout));
    layout.stripe_bytes = 8192;
    layout.iod_count = 3;
    layout.first_iod = 2;
    int f = OK(braid_open_layout(cluster, "/f", O_RDWR | O_CREAT, 0644, &layout));
    OK(braid_layout_get(f, &found));
    SAME(found.distribution, BRAID_SIMPLE_STRIPE);
    SAME(found.stripe_bytes, 8192);
    SAME(found.iod_count, 3);
    SAME(found.first_iod, 2);
    uint32_t iods[8] = {0};
    SAME(braid_layout_iods(f, iods, 8), 3);
    SAME(iods[0], 3);
    SAME(braid_layout_iods(f, NULL, 0), 3);
    OK(braid_close(f));
    OK(braid_mkdir(cluster, "/d", 0755));
    OK(braid_layout_init(&layout));
    layout.distribution = BRAID_SINGLE;
    OK(braid_layout_set(cluster, "/d", &layout));
    OK(braid_layout_of(cluster, "/d", &found));
    SAME(found.distribution, BRAID_SINGLE);
    SAME(found.first_iod, -1);
    OK(braid_close(OK(braid_creat(cluster, "/d/single", 0644))));
    OK(braid_layout_of(cluster, "/d/single", &found));
    SAME(found.distribution, BRAID_SINGLE);
    SAME(found.iod_count, 1);
    struct braid_strip strips[2] = {{0, 4096}, {1, 12288}};
    OK(braid_layout_init(&layout));
    layout.distribution = BRAID_VARSTRIP;
    layout.strips = strips;
    layout.strip_count = 2;
    layout.iod_count = 2;
    f = OK(braid_open_layout(cluster, "/v", O_RDWR | O_CREAT, 0644, &layout));
    OK(braid_layout_get(f, &found));
    SAME(found.distribution, BRAID_VARSTRIP);
    SAME(found.iod_count, 2);
    layout.distribution = 99;
    FAILS(braid_open_layout(cluster, "/w", O_RDWR | O_CREAT, 0644, &layout), EINVAL);
    /* Wrong layouts are errors even if the file exists; no advice has options of the command. */
    OK(braid_layout_init(&layout));
    layout.stripe_bytes = 5000;
    const char *both[2] = {"/w", "/f"};
    for (int at = 0; at < 2; at++) {
        FAILS(braid_open_layout(cluster, both[at], O_RDWR | O_CREAT, 0644, &layout), EINVAL);
        SAME(strstr(braid_error_message(), "5000") &&
                 strstr(braid_error_message(), "in steps of 4096"),
             1);
    }
    layout.stripe_bytes = 0;
    layout.iod_count = 99;
    for (int at = 0; at < 2; at++) {
        FAILS(braid_open_layout(cluster, both[at], O_RDWR | O_CREAT, 0644, &layout), EINVAL);
        SAME(strstr(braid_error_message(), "99 I/O daemons: the cluster has 4") &&
                 !strstr(braid_error_message(), " --"),
             1);
    }
    FAILS(braid_layout_set(cluster, "/d", &layout), EINVAL);
    FAILS(braid_access(cluster, "/w", F_OK), ENOENT);
}

static void xattrs(void) {
    char value[100], list[100];
    OK(braid_close(OK(braid_creat(cluster, "/f", 0644))));
    SAME(braid_listxattr(cluster, "/f", NULL, 0), 0);
    FAILS(braid_getxattr(cluster, "/f", "user.a", value, sizeof value), ENODATA);
    OK(braid_setxattr(cluster, "/f", "user.a", "one\0two", 7, XATTR_CREATE));
    FAILS(braid_setxattr(cluster, "/f", "user.a", "", 0, XATTR_CREATE), EEXIST);
    FAILS(braid_setxattr(cluster, "/f", "user.b", "", 0, XATTR_REPLACE), ENODATA);
    FAILS(braid_setxattr(cluster, "/f", "user.b", "", 0, 7), EINVAL);
    OK(braid_setxattr(cluster, "/f", "user.b", NULL, 0, 0));
    SAME(braid_getxattr(cluster, "/f", "user.a", NULL, 0), 7);
    SAME(braid_getxattr(cluster, "/f", "user.a", value, 7), 7);
    SAME(memcmp(value, "one\0two", 7), 0);
    FAILS(braid_getxattr(cluster, "/f", "user.a", value, 6), ERANGE);
    SAME(braid_getxattr(cluster, "/f", "user.b", value, sizeof value), 0);
    OK(braid_symlink(cluster, "f", "/soft"));
    SAME(braid_listxattr(cluster, "/soft", NULL, 0), 14);
    SAME(braid_listxattr(cluster, "/soft", list, 14), 14);
    SAME(memcmp(list, "user.a\0user.b", 14) && memcmp(list, "user.b\0user.a", 14), 0);
    FAILS(braid_listxattr(cluster, "/f", list, 13), ERANGE);
    OK(braid_removexattr(cluster, "/f", "user.a"));
    FAILS(braid_removexattr(cluster, "/f", "user.a"), ENODATA);
    SAME(braid_listxattr(cluster, "/f", list, sizeof list), 7);
    FAILS(braid_getxattr(cluster, "/none", "user.a", value, sizeof value), ENOENT);
    FAILS(braid_getxattr(cluster, "/f", "user.b", NULL, 5), EFAULT);
    FAILS(braid_getxattr(cluster, "/f", NULL, value, 5), EFAULT);
    FAILS(braid_setxattr(cluster, "/f", "user.c", NULL, 5, 0), EFAULT);
    FAILS(braid_listxattr(cluster, NULL, list, 5), EFAULT);
    FAILS(braid_removexattr(4711, "/f", "user.b"), EBADF);
}

static void copies(void) {
    enum { BYTES = 1 << 20 };
    static unsigned char all[BYTES], found[BYTES];
    for (size_t at = 0; at < BYTES; at++) all[at] = noise(at);
    struct braid_layout layout;
    OK(braid_layout_init(&layout));
    layout.stripe_bytes = 4096;
    layout.first_iod = 0;
    int from = OK(braid_open_layout(cluster, "/from", O_RDWR | O_CREAT, 0644, &layout));
    int alike = OK(braid_open_layout(cluster, "/alike", O_RDWR | O_CREAT, 0644, &layout));
    layout.stripe_bytes = 12288;
    int other = OK(braid_open_layout(cluster, "/other", O_RDWR | O_CREAT, 0644, &layout));
    SAME(braid_pwrite(from, all, BYTES, 0), BYTES);
    int targets[2] = {alike, other};
    for (int at = 0; at < 2; at++) {
        /* Several steps, as with copy_file_range. */
        int64_t done = 0;
        for (ssize_t some;
             (some = OK(braid_copy_range(from, done, targets[at], done, SIZE_MAX))) > 0;)
            done += some;
        SAME(done, BYTES);
        SAME(braid_pread(targets[at], found, BYTES, 0), BYTES);
        SAME(memcmp(found, all, BYTES), 0);
        SAME(braid_copy_range(from, 1000, targets[at], 2 * BYTES, 500), 500);
        SAME(braid_pread(targets[at], found, 500, 2 * BYTES), 500);
        SAME(memcmp(found, all + 1000, 500), 0);
        SAME(braid_copy_range(from, BYTES - 10, targets[at], 0, 500), 10);
        SAME(braid_copy_range(from, BYTES, targets[at], 0, 500), 0);
        SAME(braid_lseek(targets[at], 0, SEEK_CUR), 0);
    }
    SAME(braid_copy_range(from, 0, from, BYTES, BYTES), BYTES);
    FAILS(braid_copy_range(from, 0, from, 100, 200), EINVAL);
    FAILS(braid_copy_range(from, -1, alike, 0, 1), EINVAL);
    FAILS(braid_copy_range(from, 0, alike, -1, 1), EINVAL);
    int reading = OK(braid_open(cluster, "/alike", O_RDONLY, 0)),
        writing = OK(braid_open(cluster, "/alike", O_WRONLY, 0));
    FAILS(braid_copy_range(from, 0, reading, 0, 1), EBADF);
    FAILS(braid_copy_range(writing, 0, from, 0, 1), EBADF);
    FAILS(braid_copy_range(4711, 0, from, 0, 1), EBADF);
}

static void views(void) {
    enum { BYTES = 100000 };
    static unsigned char all[BYTES], part[BYTES];
    for (size_t at = 0; at < BYTES; at++) all[at] = noise(at);
    struct braid_layout layout;
    OK(braid_layout_init(&layout));
    layout.stripe_bytes = 4096;
    int f = OK(braid_open_layout(cluster, "/f", O_RDWR | O_CREAT, 0644, &layout));
    SAME(braid_pwrite(f, all, BYTES, 0), BYTES);
    /* Two views that overlap, at the same time, with cursors of their own. */
    struct braid_view *v = MADE(braid_view_strided(100, 10, 50)),
                      *w = MADE(braid_view_strided(105, 20, 100));
    int a = OK(braid_with_view(f, v)), b = OK(braid_with_view(f, w));
    SAME(braid_read(a, part, 25), 25);
    for (int at = 0; at < 25; at++) SAME(part[at], all[100 + at / 10 * 50 + at % 10]);
    SAME(braid_read(b, part, 40), 40);
    for (int at = 0; at < 40; at++) SAME(part[at], all[105 + at / 20 * 100 + at % 20]);
    SAME(braid_lseek(a, 0, SEEK_CUR), 25);
    SAME(braid_lseek(b, 0, SEEK_CUR), 40);
    SAME(braid_view_to_file(v, 25), 205);
    SAME(braid_view_from_file(v, 205), 25);
    FAILS(braid_view_from_file(v, 215), ENXIO);
    SAME(braid_view_bytes_below(v, 215), 30);
    /* view -> file -> view */
    SAME(braid_view_from_file(w, braid_view_to_file(v, braid_view_from_file(v, 108))), 3);
    braid_view_free(v);
    braid_view_free(w);
    SAME(braid_pwrite(a, "0123456789", 10, 5), 10);
    SAME(braid_pread(f, part, 60, 100), 60);
    SAME(memcmp(part + 5, "01234", 5) || memcmp(part + 50, "56789", 5), 0);
    SAME(braid_pwrite(f, all, BYTES, 0), BYTES);
    OK(braid_close(a));
    SAME(braid_pread(b, part, 1, 0), 1);
    OK(braid_close(b));
    /* A block of an array, and the same as nested patterns. */
    uint64_t sizes[2] = {40, 60}, block[2] = {5, 7}, starts[2] = {3, 11};
    v = MADE(braid_view_subarray(0, 2, sizes, block, starts, 8));
    struct braid_pattern *element = MADE(braid_pattern_bytes(56)),
                         *rows = MADE(braid_pattern_vector(5, 480, element));
    w = MADE(braid_view_nested(3 * 480 + 88, 40 * 480, rows));
    braid_pattern_free(element);
    braid_pattern_free(rows);
    for (int which = 0; which < 2; which++) {
        OK(braid_set_view(f, which ? w : v));
        memset(part, 0, sizeof part);
        SAME(braid_read(f, part, 5 * 56), 5 * 56);
        for (int at = 0; at < 5 * 56; at++) SAME(part[at], all[(3 + at / 56) * 480 + 88 + at % 56]);
    }
    braid_view_free(v);
    braid_view_free(w);
    /* 40 rows in blocks of 3 over 4 tasks, the third task's: 6 to 8, 18 to 20, 30 to 32; 60 columns
     * in blocks of 7 over 2 tasks, the second task's: 7 to 13, 21 to 27, 35 to 41, 49 to 55. From
     * byte 90 on; then the same of the next array. */
    uint64_t blocks[2] = {3, 7}, tasks[2] = {4, 2}, task[2] = {2, 1};
    v = MADE(braid_view_block_cyclic(90, 2, sizes, blocks, tasks, task, 8));
    OK(braid_set_view(f, v));
    memset(part, 0, sizeof part);
    SAME(braid_read(f, part, 2 * 9 * 28 * 8), 2 * 9 * 28 * 8);
    for (int at = 0; at < 2 * 9 * 28 * 8; at++) {
        int array = at / (9 * 28 * 8), row = at / (28 * 8) % 9, column = at / 8 % 28;
        row = 6 + row / 3 * 12 + row % 3;
        column = 7 + column / 7 * 14 + column % 7;
        SAME(part[at], all[90 + ((array * 40 + row) * 60 + column) * 8 + at % 8]);
    }
    braid_view_free(v);
    /* A dimension with one task is not divided; with 40 rows in blocks of 40, the second of 2 tasks
     * has no rows. */
    uint64_t whole[2] = {60, 60}, one[2] = {2, 1}, second[2] = {1, 0}, none[2] = {40, 60};
    v = MADE(braid_view_block_cyclic(0, 2, (uint64_t[]){61, 60}, whole, one, second, 8));
    SAME(braid_view_to_file(v, 0), 60 * 60 * 8);
    SAME(braid_view_bytes_below(v, 61 * 60 * 8), 60 * 8);
    braid_view_free(v);
    SAME(braid_view_block_cyclic(0, 2, sizes, none, one, second, 8) == NULL && errno == EINVAL, 1);
    second[1] = 1;
    SAME(braid_view_block_cyclic(0, 2, (uint64_t[]){61, 60}, whole, one, second, 8) == NULL &&
             errno == EINVAL,
         1);
    SAME(braid_view_block_cyclic(0, 2, sizes, blocks, tasks, NULL, 8) == NULL && errno == EFAULT,
         1);
    SAME(braid_view_block_cyclic(-1, 2, sizes, blocks, tasks, task, 8) == NULL && errno == EINVAL,
         1);
    /* A struct of patterns, and a list of extents. */
    struct braid_extent extents[2] = {{0, 3}, {10, 2}};
    struct braid_pattern *children[2] = {MADE(braid_pattern_bytes(4)),
                                         MADE(braid_pattern_extents(extents, 2))};
    uint64_t offsets[2] = {0, 100};
    struct braid_pattern *both =
        MADE(braid_pattern_struct(offsets, (const struct braid_pattern *const *)children, 2));
    v = MADE(braid_view_nested(7, 1000, both));
    OK(braid_set_view(f, v));
    SAME(braid_pread(f, part, 18, 0), 18);
    int expected[9] = {7, 8, 9, 10, 107, 108, 109, 117, 118};
    for (int at = 0; at < 18; at++) SAME(part[at], all[expected[at % 9] + at / 9 * 1000]);
    FAILS(braid_lseek(f, 0, SEEK_DATA), EINVAL);
    OK(braid_set_view(f, NULL));
    SAME(braid_lseek(f, 0, SEEK_DATA), 0);
    SAME(braid_lseek(f, 0, SEEK_HOLE), BYTES);
    FAILS(braid_lseek(f, BYTES + 1, SEEK_DATA), ENXIO);
    SAME(braid_view_strided(0, 10, 5) == NULL && errno == EINVAL, 1);
    SAME(braid_view_extents(extents, 0) == NULL && errno == EINVAL, 1);
    SAME(braid_pattern_bytes(0) == NULL && errno == EINVAL, 1);
    braid_view_free(v);
    for (int at = 0; at < 2; at++) braid_pattern_free(children[at]);
    braid_pattern_free(both);
    braid_view_free(NULL);
    braid_pattern_free(NULL);
    OK(braid_close(f));
}

static void lists(void) {
    enum { PIECES = 500, BYTES = 37 };
    static unsigned char out[PIECES][BYTES], in[PIECES][BYTES];
    struct braid_piece pieces[PIECES];
    int f = OK(braid_open(cluster, "/f", O_RDWR | O_CREAT, 0644));
    for (int i = 0; i < PIECES; i++) {
        for (int at = 0; at < BYTES; at++) out[i][at] = noise(i * BYTES + at);
        /* 211 and 500 have no common factor: every position once, out of order. */
        pieces[i] = (struct braid_piece){(int64_t)(i * 211 % PIECES) * 1000, out[i], BYTES};
    }
    SAME(braid_write_list(f, pieces, PIECES), PIECES * BYTES);
    unsigned char back[BYTES];
    for (int i = 0; i < PIECES; i += 17) {
        SAME(braid_pread(f, back, BYTES, pieces[i].offset), BYTES);
        SAME(memcmp(back, out[i], BYTES), 0);
    }
    for (int i = 0; i < PIECES; i++) pieces[i].memory = in[i];
    SAME(braid_read_list(f, pieces, PIECES), PIECES * BYTES);
    SAME(memcmp(in, out, sizeof in), 0);
    /* Overlapping reads get all their bytes; of overlapping writes the later one wins; past the end
     * there are no bytes. */
    struct braid_piece three[3] = {{0, in[0], 30}, {10, in[1], 30}, {499037, in[2], BYTES}};
    memset(in, 0xee, sizeof in);
    SAME(braid_read_list(f, three, 3), 60);
    SAME(braid_pread(f, back, 30, 10), 30);
    SAME(memcmp(in[1], back, 30), 0);
    SAME(in[2][0], 0xee);
    memset(in[0], 1, 30);
    memset(in[1], 2, 30);
    SAME(braid_write_list(f, three, 2), 60);
    SAME(braid_pread(f, back, 30, 0), 30);
    SAME(back[9] == 1 && back[10] == 2 && back[29] == 2, 1);
    struct braid_piece wrong[2] = {{INT64_MAX, in[0], 1}, {-1, in[0], 1}};
    FAILS(braid_read_list(f, wrong, 1), EFBIG);
    FAILS(braid_write_list(f, wrong, 1), EFBIG);
    FAILS(braid_write_list(f, wrong + 1, 1), EINVAL);
    SAME(braid_read_list(f, NULL, 0), 0);
    SAME(braid_write_list(f, NULL, 0), 0);
    OK(braid_close(f));
}

static void asynchronous(void) {
    enum { CALLS = 64, BYTES = 100000 };
    static unsigned char out[CALLS][BYTES], in[CALLS][BYTES];
    struct braid_request *requests[CALLS];
    int f = OK(braid_open(cluster, "/f", O_RDWR | O_CREAT, 0644));
    for (int i = 0; i < CALLS; i++) {
        for (int at = 0; at < BYTES; at++) out[i][at] = noise(i + at);
        requests[i] = MADE(braid_pwrite_start(f, out[i], BYTES, (int64_t)i * BYTES));
    }
    for (int i = CALLS - 1; i >= 0; i--) SAME(braid_wait(requests[i]), BYTES);
    SAME(braid_wait(MADE(braid_fsync_start(f))), 0);
    for (int i = 0; i < CALLS; i++)
        requests[i] = MADE(braid_pread_start(f, in[i], BYTES, (int64_t)i * BYTES));
    for (int i = 0; i < CALLS; i++) {
        while (OK(braid_test(requests[i])) == 0) {}
        SAME(braid_wait(requests[i]), BYTES);
    }
    SAME(memcmp(in, out, sizeof in), 0);
    struct iovec half[2] = {{in[1], BYTES / 2}, {in[0], BYTES / 2}};
    memset(in[0], 0, BYTES);
    memset(in[1], 0, BYTES);
    struct braid_request *vector = MADE(braid_preadv_start(f, half, 2, 0));
    half[0] = half[1] = (struct iovec){NULL, 1}; /* the array may be reused */
    SAME(braid_wait(vector), BYTES);
    SAME(memcmp(in[1], out[0], BYTES / 2) || memcmp(in[0], out[0] + BYTES / 2, BYTES / 2), 0);
    struct iovec turned[2] = {{out[0] + BYTES / 2, BYTES / 2}, {out[0], BYTES / 2}};
    SAME(braid_wait(MADE(braid_pwritev_start(f, turned, 2, (int64_t)CALLS * BYTES))), BYTES);
    SAME(braid_pread(f, in[0], BYTES / 2, (int64_t)CALLS * BYTES + BYTES / 2), BYTES / 2);
    SAME(memcmp(in[0], out[0], BYTES / 2), 0);
    SAME(braid_preadv_start(f, half, 2, 0) == NULL && errno == EFAULT, 1);
    SAME(braid_pwritev_start(f, turned, -1, 0) == NULL && errno == EINVAL, 1);
    /* The descriptor may be closed while a call runs. */
    struct braid_piece pieces[2] = {{5, in[0], 3}, {1, in[1], 2}};
    struct braid_request *list = MADE(braid_read_list_start(f, pieces, 2));
    memset(pieces, 0, sizeof pieces);
    SAME(braid_wait(list), 5);
    SAME(memcmp(in[0], out[0] + 5, 3), 0);
    OK(braid_close(f));
    SAME(braid_pread_start(f, in[0], 1, 0) == NULL && errno == EBADF, 1);
    /* The wait returns the failure, with its message. */
    f = OK(braid_open(cluster, "/f", O_RDWR, 0));
    struct braid_piece wrong[2] = {{0, in[0], 3}, {-1, in[1], 2}};
    FAILS(braid_wait(MADE(braid_write_list_start(f, wrong, 2))), EINVAL);
    SAME(strstr(braid_error_message(), "offset is negative") != NULL, 1);
    OK(braid_close(f));
}

static void papers_fcntl(void) {
    struct braid_mount mount;
    OK(braid_fcntl(cluster, BRAID_GET_MOUNT, &mount));
    SAME(mount.iods, 4);
    SAME(strncmp(mount.manager, "127.0.0.1:", 10), 0);
    int f = OK(braid_open(cluster, "/f", O_RDWR | O_CREAT, 0644));
    struct braid_metadata metadata = {16384, 1, 2}, found;
    OK(braid_fcntl(f, BRAID_SET_METADATA, &metadata));
    OK(braid_fcntl(f, BRAID_GET_METADATA, &found));
    SAME(found.stripe_bytes, 16384);
    SAME(found.base, 1);
    SAME(found.node_count, 2);
    static unsigned char all[65536], back[65536];
    for (size_t at = 0; at < sizeof all; at++) all[at] = noise(at);
    SAME(braid_write(f, all, sizeof all), sizeof all);
    SAME(braid_pread(f, back, sizeof back, 0), sizeof back);
    SAME(memcmp(all, back, sizeof all), 0);
    OK(braid_fsync(f));
    metadata.stripe_bytes = 8192;
    FAILS(braid_fcntl(f, BRAID_SET_METADATA, &metadata), EBUSY);
    struct braid_partition partition = {64, 16, 128}, seen;
    OK(braid_fcntl(f, BRAID_SET_PARTITION, &partition));
    OK(braid_fcntl(f, BRAID_GET_PARTITION, &seen));
    SAME(memcmp(&partition, &seen, sizeof seen), 0);
    SAME(braid_read(f, back, 40), 40);
    for (int at = 0; at < 40; at++) SAME(back[at], all[64 + at / 16 * 128 + at % 16]);
    FAILS(braid_fcntl(f, 77, &seen), EINVAL);
    FAILS(braid_fcntl(f, BRAID_GET_PARTITION, NULL), EFAULT);
    OK(braid_close(f));
}

static void misuse(void) {
    char buffer[8];
    struct stat st;
    FAILS(braid_open(cluster, NULL, O_RDONLY, 0), EFAULT);
    FAILS(braid_open(0, "/f", O_RDONLY, 0), EBADF);
    FAILS(braid_open(-1, "/f", O_RDONLY, 0), EBADF);
    int f = OK(braid_open(cluster, "/f", O_RDWR | O_CREAT, 0644));
    FAILS(braid_stat(f, "/f", &st), EBADF);
    FAILS(braid_read(cluster, buffer, 1), EBADF);
    FAILS(braid_read(f, NULL, 1), EFAULT);
    SAME(braid_read(f, NULL, 0), 0);
    FAILS(braid_write(f, NULL, 1), EFAULT);
    FAILS(braid_read(f, buffer, SIZE_MAX), EINVAL);
    FAILS(braid_pread(f, buffer, 1, -1), EINVAL);
    FAILS(braid_readv(f, NULL, 1), EFAULT);
    FAILS(braid_readv(f, NULL, -1), EINVAL);
    struct iovec half = {NULL, 5};
    FAILS(braid_writev(f, &half, 1), EFAULT);
    struct iovec large[2] = {{buffer, SIZE_MAX / 2}, {buffer, SIZE_MAX / 2}};
    FAILS(braid_writev(f, large, 2), EINVAL);
    FAILS(braid_lseek(f, 0, 99), EINVAL);
    FAILS(braid_stat(cluster, "/f", NULL), EFAULT);
    FAILS(braid_rename(cluster, "/f", NULL), EFAULT);
    FAILS(braid_layout_init(NULL), EFAULT);
    FAILS(braid_read_list(f, NULL, 1), EFAULT);
    FAILS(braid_test(NULL), EFAULT);
    FAILS(braid_wait(NULL), EFAULT);
    FAILS(braid_access(cluster, "/f", 99), EINVAL);
    FAILS(braid_open(cluster, "/f", O_RDONLY | O_TMPFILE, 0), EOPNOTSUPP);
    SAME(braid_pattern_vector(2, 8, NULL) == NULL && errno == EFAULT, 1);
    SAME(braid_view_nested(0, 8, NULL) == NULL && errno == EFAULT, 1);
    /* Descriptors of the kernel are not valid here, and ours are not valid there. */
    FAILS(braid_close(STDOUT_FILENO), EBADF);
    FAILS(read(f, buffer, 1), EBADF);
    char name[300];
    memset(name, 'x', sizeof name - 1);
    name[0] = '/';
    name[sizeof name - 1] = 0;
    FAILS(braid_creat(cluster, name, 0644), ENAMETOOLONG);
    struct braid_options options = {.reserved = {1}};
    FAILS(braid_connect(NULL, &options), EINVAL);
    options = (struct braid_options){.tls = 9};
    FAILS(braid_connect(NULL, &options), EINVAL);
    FAILS(braid_connect("/no/such/braid.toml", NULL), ENOENT);
    SAME(strstr(braid_error_message(), "; try: ") != NULL, 1);
    OK(braid_close(f));
}

static void *one_thread(void *argument) {
    int number = *(int *)argument, f = OK(braid_open(cluster, "/shared", O_RDWR, 0));
    char path[32];
    snprintf(path, sizeof path, "/none%d", number);
    for (int round = 0; round < 50; round++) {
        unsigned char out[3000], in[3000];
        memset(out, number + round, sizeof out);
        SAME(braid_pwrite(f, out, sizeof out, (int64_t)number * 3000), sizeof out);
        SAME(braid_pread(f, in, sizeof in, (int64_t)number * 3000), sizeof in);
        SAME(memcmp(in, out, sizeof in), 0);
        FAILS(braid_open(cluster, path, O_RDONLY, 0), ENOENT);
        SAME(strstr(braid_error_message(), path) != NULL, 1);
    }
    OK(braid_close(f));
    return NULL;
}

static void threads(void) {
    enum { THREADS = 8 };
    pthread_t running[THREADS];
    int numbers[THREADS];
    OK(braid_close(OK(braid_creat(cluster, "/shared", 0644))));
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        SAME(pthread_create(&running[i], NULL, one_thread, &numbers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(running[i], NULL);
    SAME(braid_size(OK(braid_open(cluster, "/shared", O_RDONLY, 0))), THREADS * 3000);
}

static void in_child(void) {
    int f = OK(braid_open(cluster, "/f", O_RDWR | O_CREAT, 0644));
    SAME(braid_write(f, "parent", 6), 6);
    static char buffer[1 << 20];
    struct braid_request *request = MADE(braid_pread_start(f, buffer, sizeof buffer, 0));
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        FAILS(braid_read(f, buffer, 1), EBADF);
        SAME(strstr(braid_error_message(), "fork") != NULL, 1);
        FAILS(braid_stat(cluster, "/f", &(struct stat){0}), EBADF);
        FAILS(braid_wait(request), ECHILD);
        int own = OK(braid_connect(NULL, NULL)), g = OK(braid_open(own, "/f", O_RDWR, 0));
        SAME(braid_pread(g, buffer, 6, 0), 6);
        SAME(memcmp(buffer, "parent", 6), 0);
        SAME(braid_pwrite(g, "child!", 6, 0), 6);
        OK(braid_close(g));
        OK(braid_disconnect(own));
        _exit(0);
    }
    int status;
    SAME(waitpid(child, &status, 0), child);
    SAME(status, 0);
    SAME(braid_wait(request), 6);
    SAME(braid_pread(f, buffer, 6, 0), 6);
    SAME(memcmp(buffer, "child!", 6), 0);
    OK(braid_close(f));
}

/* Tasks as threads, which exchange bytes in memory between two barriers. */
enum { TASKS = 4, EACH = 4000, PIECE = 1000 };

static pthread_barrier_t barrier;
static unsigned char gathered[1 << 20];
static int unwilling;

struct task {
    int rank, rounds;
    struct braid_group *group;
};

static int gather(void *context, const void *mine, size_t bytes, void *all) {
    struct task *task = context;
    SAME(bytes * TASKS <= sizeof gathered, 1);
    task->rounds++;
    if (unwilling) return 7;
    memcpy(gathered + bytes * (size_t)task->rank, mine, bytes);
    pthread_barrier_wait(&barrier);
    memcpy(all, gathered, bytes * TASKS);
    pthread_barrier_wait(&barrier);
    return 0;
}

/* Each task writes one piece of every four in a collective call, reads it back, and checks the
 * pieces of the others. */
static void *one_task(void *argument) {
    struct task *task = argument;
    int rank = task->rank, server = BRAID_COLLECTIVE_SERVER;
    struct braid_group *group = task->group =
        MADE(braid_group_calling((uint32_t)rank, TASKS, gather, task));
    struct braid_view *view = MADE(braid_view_strided(rank * PIECE, PIECE, TASKS * PIECE));
    int whole = OK(braid_open(cluster, "/together", O_RDWR, 0)),
        f = OK(braid_with_view(whole, view));
    unsigned char out[EACH], in[EACH], all[EACH];
    for (size_t at = 0; at < EACH; at++) out[at] = noise(at + (size_t)rank * EACH);
    SAME(braid_pwrite_all(f, group, out, EACH, 0, server), EACH);
    SAME(braid_pread_all(f, group, in, EACH, 0, server), EACH);
    SAME(memcmp(in, out, EACH), 0);
    SAME(braid_pread_all(f, group, in, EACH, PIECE, BRAID_COLLECTIVE_AUTO), EACH - PIECE);
    SAME(memcmp(in, out + PIECE, EACH - PIECE), 0);
    SAME(braid_pread_all(f, group, in, EACH, 0, BRAID_COLLECTIVE_INDEPENDENT), EACH);
    SAME(memcmp(in, out, EACH), 0);
    int rounds = task->rounds;
    /* Tasks without bytes and without a buffer. */
    SAME(braid_pread_all(f, group, rank % 2 ? NULL : in, rank % 2 ? 0 : EACH, 0, server),
         rank % 2 ? 0 : EACH);
    SAME(task->rounds, rounds + 2);
    /* Where all write, the highest rank wins; or the call fails. */
    memset(all, rank + 1, EACH);
    SAME(braid_pwrite_all(whole, group, all, EACH, TASKS * EACH, server), EACH);
    SAME(braid_pread_all(whole, group, in, EACH, TASKS * EACH, server), EACH);
    for (size_t at = 0; at < EACH; at++) SAME(in[at], TASKS);
    FAILS(braid_pwrite_all(whole, group, out, EACH, TASKS * EACH,
                           server | BRAID_COLLECTIVE_NO_OVERLAP),
          EINVAL);
    SAME(braid_pread(whole, in, 1, TASKS * EACH), 1);
    SAME(in[0], TASKS);
    SAME(braid_overlap_all(f, group, EACH, 0), 0);
    SAME(braid_overlap_all(f, group, EACH, rank == 2 ? PIECE : 0), 0);
    SAME(braid_overlap_all(whole, group, EACH, rank * EACH - (rank == 2)), 1);
    FAILS(braid_overlap_all(rank == 2 ? 77 : f, group, EACH, 0), rank == 2 ? EBADF : EINVAL);
    /* Lists that do not fit the first round. */
    struct braid_extent extents[EACH / 40];
    for (int n = 0; n < EACH / 40; n++)
        extents[n] = (struct braid_extent){n * 160 + rank * 40 + n % 3, 30};
    struct braid_view *listed = MADE(braid_view_extents(extents, EACH / 40));
    OK(braid_set_view(f, listed));
    rounds = task->rounds;
    SAME(braid_pwrite_all(f, group, out, EACH / 40 * 30, 0, server), EACH / 40 * 30);
    SAME(task->rounds, rounds + 3);
    OK(braid_set_view(f, NULL));
    SAME(braid_pread(f, in, 30, extents[7].offset), 30);
    SAME(memcmp(in, out + 7 * 30, 30), 0);
    /* A task that cannot take part: the others are notified, and it gets its own error. */
    SAME(braid_pread_all(rank == 2 ? 77 : f, group, in, 1, 0, server), -1);
    SAME(strstr(braid_error_message(), rank == 2 ? "descriptor 77" : "task 2: descriptor 77") !=
             NULL,
         1);
    FAILS(braid_pwrite_all(f, group, rank == 1 ? NULL : out, 1, 0, rank == 3 ? 99 : 0),
          rank == 1 ? EFAULT : EINVAL);
    FAILS(braid_pwrite_all(f, group, out, 1, rank == 3 ? -1 : 0, 0), EINVAL);
    if (rank == 1) OK(braid_refuse_all(group, ENOSPC, "my own disk is full"));
    else FAILS(braid_pread_all(f, group, in, 1, 0, server), ENOSPC);
    if (rank != 1) SAME(strstr(braid_error_message(), "task 1: my own disk is full") != NULL, 1);
    /* Different calls. */
    if (rank) FAILS(braid_pread_all(f, group, in, 1, 0, server), EINVAL);
    else FAILS(braid_pwrite_all(f, group, in, 1, 0, server), EINVAL);
    /* A failed call has no effect on the next one. */
    SAME(braid_pread_all(f, group, in, 1, 0, server), 1);
    OK(braid_group_gather(group, &rank, sizeof rank, all, 1000));
    for (int other = 0; other < TASKS; other++) SAME(((int *)all)[other], other);
    pthread_barrier_wait(&barrier);
    unwilling = 1;
    FAILS(braid_pread_all(f, group, in, 1, 0, server), ECONNRESET);
    SAME(strstr(braid_error_message(), "all_gather of the group returned 7") != NULL, 1);
    braid_group_free(group);
    braid_view_free(view);
    braid_view_free(listed);
    OK(braid_close(f));
    OK(braid_close(whole));
    return NULL;
}

static void as_tasks(void *(*work)(void *)) {
    pthread_t running[TASKS];
    struct task tasks[TASKS] = {0};
    for (int rank = 0; rank < TASKS; rank++) {
        tasks[rank].rank = rank;
        SAME(pthread_create(&running[rank], NULL, work, &tasks[rank]), 0);
    }
    for (int rank = 0; rank < TASKS; rank++) pthread_join(running[rank], NULL);
}

static void together(void) {
    OK(braid_close(OK(braid_creat(cluster, "/together", 0644))));
    pthread_barrier_init(&barrier, NULL, TASKS);
    as_tasks(one_task);
    char byte;
    SAME(braid_group_calling(4, 4, gather, NULL) == NULL && errno == EINVAL, 1);
    SAME(braid_group_calling(0, 1, NULL, NULL) == NULL && errno == EFAULT, 1);
    FAILS(braid_pread_all(0, NULL, &byte, 1, 0, 0), EFAULT);
    FAILS(braid_refuse_all(NULL, EIO, "why"), EFAULT);
    braid_group_free(NULL);
}

static pthread_barrier_t first_started;

/* The same calls, started: a task continues before the others have started theirs. */
static void *one_started(void *argument) {
    struct task *task = argument;
    int rank = task->rank, server = BRAID_COLLECTIVE_SERVER;
    struct braid_group *group = task->group =
        MADE(braid_group_calling((uint32_t)rank, TASKS, gather, task));
    struct braid_view *view = MADE(braid_view_strided(rank * PIECE, PIECE, TASKS * PIECE));
    int whole = OK(braid_open(cluster, "/started", O_RDWR, 0)),
        f = OK(braid_with_view(whole, view));
    unsigned char out[EACH], in[EACH];
    for (size_t at = 0; at < EACH; at++) out[at] = noise(at + (size_t)rank * EACH);
    if (rank) pthread_barrier_wait(&first_started);
    struct braid_request *request = MADE(braid_pwrite_all_start(f, group, out, EACH, 0, server));
    if (!rank) {
        OK(braid_fsync(whole));
        SAME(braid_test(request), 0);
        pthread_barrier_wait(&first_started);
    }
    SAME(braid_wait(request), EACH);
    request = MADE(braid_pread_all_start(f, group, in, EACH, 0, server));
    while (!braid_test(request)) sched_yield();
    SAME(braid_wait(request), EACH);
    SAME(memcmp(in, out, EACH), 0);
    /* A task that cannot take part: the others are notified. */
    request = MADE(braid_pread_all_start(rank == 2 ? 77 : f, group, in, 1, 0, server));
    SAME(braid_wait(request), -1);
    SAME(strstr(braid_error_message(), rank == 2 ? "descriptor 77" : "task 2: descriptor 77") !=
             NULL,
         1);
    request =
        MADE(braid_pwrite_all_start(f, group, rank == 1 ? NULL : out, 1, 0, rank == 3 ? 99 : 0));
    FAILS(braid_wait(request), rank == 1 ? EFAULT : EINVAL);
    /* A started call outlives the handle of its group, and the descriptor. */
    request = MADE(braid_pread_all_start(f, group, in, EACH, PIECE, server));
    braid_group_free(group);
    OK(braid_close(f));
    SAME(braid_wait(request), EACH - PIECE);
    SAME(memcmp(in, out + PIECE, EACH - PIECE), 0);
    braid_view_free(view);
    OK(braid_close(whole));
    return NULL;
}

/* A task that closes its file before the others have started. */
static void *one_closing(void *argument) {
    struct task *task = argument;
    int rank = task->rank, server = BRAID_COLLECTIVE_SERVER;
    struct braid_group *group = task->group =
        MADE(braid_group_calling((uint32_t)rank, TASKS, gather, task));
    unsigned char out[EACH], in[EACH];
    for (size_t at = 0; at < EACH; at++) out[at] = noise(at + (size_t)rank * EACH);
    for (int reads = 0; reads < 2; reads++) {
        int f = OK(braid_open(cluster, "/closed", O_RDWR, 0));
        if (rank) pthread_barrier_wait(&first_started);
        struct braid_request *request =
            reads ? braid_pread_all_start(f, group, in, EACH, rank * EACH, server)
                  : braid_pwrite_all_start(f, group, out, EACH, rank * EACH, server);
        OK(braid_close(f));
        if (!rank) pthread_barrier_wait(&first_started);
        SAME(OK(braid_wait(MADE(request))), EACH);
    }
    SAME(memcmp(in, out, EACH), 0);
    braid_group_free(group);
    return NULL;
}

static void started_together(void) {
    alarm(300); /* a blocking call here would wait forever */
    OK(braid_close(OK(braid_creat(cluster, "/started", 0644))));
    OK(braid_close(OK(braid_creat(cluster, "/closed", 0644))));
    pthread_barrier_init(&barrier, NULL, TASKS);
    pthread_barrier_init(&first_started, NULL, TASKS);
    as_tasks(one_started);
    as_tasks(one_closing);
    char byte;
    SAME(braid_pread_all_start(0, NULL, &byte, 1, 0, 0) == NULL && errno == EFAULT, 1);
    SAME(braid_pwrite_all_start(0, NULL, &byte, 1, 0, 0) == NULL && errno == EFAULT, 1);
}

static char address[32];

static void *over_tcp(void *argument) {
    struct task *task = argument;
    static const unsigned char secret[32] = "no secret at all, only for this";
    struct braid_group *group =
        MADE(braid_group_tcp(address, (uint32_t)task->rank, TASKS, secret, 30000));
    if (task->rank == 0) OK(braid_close(OK(braid_creat(cluster, "/tcp", 0644))));
    OK(braid_group_gather(group, NULL, 0, NULL, 30000));
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        FAILS(braid_group_gather(group, NULL, 0, NULL, 30000), ECHILD);
        braid_group_free(group);
        _exit(0);
    }
    int status;
    SAME(waitpid(child, &status, 0), child);
    SAME(status, 0);
    int f = OK(braid_open(cluster, "/tcp", O_RDWR, 0)), numbers[TASKS];
    OK(braid_group_gather(group, &task->rank, sizeof task->rank, numbers, 30000));
    for (int rank = 0; rank < TASKS; rank++) SAME(numbers[rank], rank);
    SAME(braid_pwrite_all(f, group, &task->rank, sizeof(int), (int64_t)sizeof(int) * task->rank, 0),
         sizeof(int));
    SAME(braid_pread_all(f, group, numbers, sizeof numbers, 0, BRAID_COLLECTIVE_SERVER),
         sizeof numbers);
    for (int rank = 0; rank < TASKS; rank++) SAME(numbers[rank], rank);
    OK(braid_group_gather(group, NULL, 0, NULL, 30000));
    braid_group_free(group);
    OK(braid_close(f));
    return NULL;
}

static void tcp(void) {
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof any;
    int probe = socket(AF_INET, SOCK_STREAM, 0);
    SAME(bind(probe, (struct sockaddr *)&any, sizeof any), 0);
    SAME(getsockname(probe, (struct sockaddr *)&any, &length), 0);
    close(probe);
    snprintf(address, sizeof address, "127.0.0.1:%d", ntohs(any.sin_port));
    as_tasks(over_tcp);
    SAME(braid_group_tcp(address, 0, 1, NULL, 1000) == NULL && errno == EFAULT, 1);
    unsigned char secret[32] = "";
    SAME(braid_group_tcp(address, 1, 2, secret, 200) == NULL && errno == ETIMEDOUT, 1);
}

static void locks(void) {
    int a = OK(braid_open(cluster, "/f", O_RDWR | O_CREAT, 0644)),
        b = OK(braid_open(cluster, "/f", O_RDWR, 0));
    OK(braid_lock(a, 0, 100, 1, 0));
    FAILS(braid_lock(b, 50, 1, 0, 0), EAGAIN);
    OK(braid_lock(b, 100, 0, 1, 0));
    OK(braid_unlock(a, 0, 60));
    OK(braid_lock(b, 0, 60, 0, 1));
    FAILS(braid_lock(b, 60, 1, 0, 0), EAGAIN);
    OK(braid_close(a));
    OK(braid_lock(b, 60, 1, 0, 0));
    FAILS(braid_lock(b, -1, 1, 0, 0), EINVAL);
    OK(braid_close(b));
}

static void absent(void) {
    struct braid_options options = {.timeout_ms = 300, .client_name = "nobody home"};
    FAILS(braid_connect("127.0.0.1:1", &options), ETIMEDOUT);
    SAME(strstr(braid_error_message(), "127.0.0.1:1") != NULL, 1);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {{"files", files},
                 {"modes", modes},
                 {"names", names},
                 {"layouts", layouts},
                 {"views", views},
                 {"lists", lists},
                 {"misuse", misuse},
                 {"asynchronous", asynchronous},
                 {"fcntl", papers_fcntl},
                 {"threads", threads},
                 {"fork", in_child},
                 {"locks", locks},
                 {"absent", absent},
                 {"together", together},
                 {"started", started_together},
                 {"tcp", tcp},
                 {"xattrs", xattrs},
                 {"copies", copies}};
    SAME(argc, 2);
    cluster = OK(braid_connect(NULL, NULL));
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        if (!strcmp(tests[i].name, argv[1])) {
            tests[i].run();
            printf("%s ok\n", argv[1]);
            return 0;
        }
    }
    fprintf(stderr, "no test %s\n", argv[1]);
    return 2;
}

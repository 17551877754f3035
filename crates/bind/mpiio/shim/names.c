/* Which file names are ours: `braid:/path` or `braid:///path`, and paths below a mount of the
 * cluster that this process can reach. */
#define _GNU_SOURCE
#include "shim.h"

#include <libgen.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

/* The kernel writes blanks and backslashes of mount points as octal escapes. */
static void decode(char *text) {
    char *to = text;
    for (char *from = text; *from; to++) {
        unsigned number;
        int length = 0;
        if (sscanf(from, "\\%3o%n", &number, &length) == 1 && length == 4) {
            *to = (char)number;
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = 0;
}

/* How often the mount table is read again: a read during mounts and unmounts may miss an
 * entry. */
enum { READINGS = 10 };

/* One read of the mount table: the longest mount of this device that contains the path. `root` is
 * the directory of the file system that is mounted there. */
static int find_mount(const char *path, dev_t device, char source[256], char root[PATH_MAX],
                      size_t *below) {
    FILE *table = fopen("/proc/self/mountinfo", "re");
    char *line = NULL;
    size_t capacity = 0;
    int found = 0, is_braid = 0;
    while (table && getline(&line, &capacity, table) > 0) {
        char point[PATH_MAX], shown[PATH_MAX], type[64], from[256];
        unsigned major_number, minor_number;
        /* proc(5): id, parent, device, root, mount point, options, tags, "-", type, source */
        char *rest = strstr(line, " - ");
        if (!rest || sscanf(line, "%*s %*s %u:%u %4095s %4095s", &major_number, &minor_number,
                            shown, point) != 4)
            continue;
        if (makedev(major_number, minor_number) != device ||
            sscanf(rest, " - %63s %255s", type, from) != 2)
            continue;
        decode(point);
        decode(shown);
        size_t length = strcmp(point, "/") ? strlen(point) : 0;
        if ((found && length < *below) || strncmp(path, point, length) ||
            (path[length] != '/' && path[length]))
            continue;
        found = 1;
        *below = length;
        is_braid = !strcmp(type, "fuse.braid");
        snprintf(source, 256, "%s", from);
        snprintf(root, PATH_MAX, "%s", strcmp(shown, "/") ? shown : "");
    }
    free(line);
    if (table) fclose(table);
    return found ? is_braid : -1;
}

/* Whether a path is below a mount of BraidFS; if so, the mount's source and root. */
static int mount_of(const char *path, char source[256], char root[PATH_MAX], size_t *below) {
    struct statfs kind;
    struct stat attributes;
    char *copy = strdup(path), *directory = copy ? dirname(copy) : NULL;
    int is_braid = -1;
    if (directory && statfs(directory, &kind) == 0 && kind.f_type == FUSE_SUPER_MAGIC &&
        stat(directory, &attributes) == 0)
        for (int reading = 0; reading < READINGS && is_braid < 0; reading++)
            is_braid = find_mount(path, attributes.st_dev, source, root, below);
    free(copy);
    return is_braid > 0;
}

/* The path without symbolic links; for a file that does not exist yet, of its directory, with
 * the name. */
static char *resolved(const char *name) {
    char *whole = realpath(name, NULL), *copy, *again, *directory, *path = NULL;
    if (whole) return whole;
    copy = strdup(name);
    again = strdup(name);
    directory = copy && again ? realpath(dirname(copy), NULL) : NULL;
    if (directory &&
        asprintf(&path, "%s/%s", strcmp(directory, "/") ? directory : "", basename(again)) < 0)
        path = NULL;
    free(directory);
    free(copy);
    free(again);
    return path;
}

static char *under_mount(const char *name) {
    const char *wanted = getenv("BRAID_MPIIO_MOUNTS");
    if (wanted && !strcmp(wanted, "0")) return NULL;
    char source[256], root[PATH_MAX], *path = resolved(name), *ours = NULL;
    size_t below = 0;
    struct braid_mount mount;
    if (path && mount_of(path, source, root, &below)) {
        int cluster = cluster_of_process();
        if (cluster < 0 || braid_fcntl(cluster, BRAID_GET_MOUNT, &mount) < 0)
            fprintf(stderr,
                    "libbraid_mpiio: %s uses the MPI's own driver over the mount: %s\n", name,
                    braid_error_message());
        /* Files of another cluster's mount are left to the MPI's own driver, which uses POSIX
         * calls. */
        else if (!strcmp(mount.manager, source) &&
                 asprintf(&ours, "%s%s", root, path[below] ? path + below : "/") < 0)
            ours = NULL;
    }
    free(path);
    return ours;
}

int names_server(const char *path) {
    if (strncmp(path, "//", 2)) return 0;
    const char *server = path + 2, *end = strchrnul(server, '/'),
               *colon = memrchr(server, ':', (size_t)(end - server));
    if (!colon || colon == server || colon + 1 == end) return 0;
    return (size_t)(end - colon - 1) == strspn(colon + 1, "0123456789");
}

/* As in fsspec's braid://: braid:/a/b, braid:///a/b and braid://a/b are all /a/b. A server keeps
 * both slashes. */
static char *path_in_url(const char *url) {
    if (!names_server(url))
        while (url[0] == '/' && url[1] == '/') url++;
    return strdup(url);
}

char *path_of(const char *name) {
    if (!name) return NULL;
    return strncmp(name, "braid:", 6) ? under_mount(name) : path_in_url(name + 6);
}

char *path_of_all(MPI_Comm comm, const char *name) {
    char *path = path_of(name);
    int ours = path != NULL, all = 0;
    if (name && !strncmp(name, "braid:", 6)) return path;
    /* Hosts may have different mounts, so all ranks must agree. */
    if (MPI_Allreduce(&ours, &all, 1, MPI_INT, MPI_LAND, comm) == MPI_SUCCESS && all) return path;
    free(path);
    return NULL;
}

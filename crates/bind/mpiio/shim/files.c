/* Finds our handles, and the MPI's own functions. */
#define _GNU_SOURCE
#include "shim.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static struct file *files;
static pthread_rwlock_t table = PTHREAD_RWLOCK_INITIALIZER;

void *real_function(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) {
        fprintf(stderr,
                "libbraid_mpiio: the MPI has no %s; try: link or preload libbraid_mpiio before the "
                "MPI\n",
                name);
        abort();
    }
    return found;
}

struct file *ours(MPI_File handle) {
    pthread_rwlock_rdlock(&table);
    struct file *file = files;
    while (file && file->handle != handle) file = file->next;
    pthread_rwlock_unlock(&table);
    return file;
}

void remember(struct file *file) {
    pthread_rwlock_wrlock(&table);
    file->next = files;
    files = file;
    pthread_rwlock_unlock(&table);
}

void forget(struct file *file) {
    pthread_rwlock_wrlock(&table);
    struct file **place = &files;
    while (*place && *place != file) place = &(*place)->next;
    if (*place) *place = file->next;
    pthread_rwlock_unlock(&table);
}

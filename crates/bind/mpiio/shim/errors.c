/* Error codes with texts of their own, and the file's error handler. MPI-4.1 14.7, 9.4, 9.5. */
#include "shim.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Codes cannot be freed, so only this many texts get one. Further failures get the code of their
 * class. */
enum { CODES_MAX = 256 };

static struct {
    int class, code;
    char text[MPI_MAX_ERROR_STRING];
} codes[CODES_MAX];
static int known;
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;

#ifdef MPICH_VERSION
/* MPICH 4.0 mistakes a code that MPI_Add_error_code made for a predefined class for one of its own,
 * and shows another text. The function with which its ROMIO makes codes is exported. It keeps the
 * last texts in a ring. */
extern int MPIR_Err_create_code(int last, int fatal, const char function[], int line, int class,
                                const char generic[], const char specific[], ...)
    __attribute__((weak));
#endif

static int code_of(int class, const char *text) {
    int code = class;
#ifdef MPICH_VERSION
    return MPIR_Err_create_code
               ? MPIR_Err_create_code(MPI_SUCCESS, 0, "MPI_File", 0, class, "**io", "**io %s", text)
               : code;
#endif
    pthread_mutex_lock(&adding);
    for (int at = 0; at < known; at++) {
        if (codes[at].class == class && !strcmp(codes[at].text, text)) {
            code = codes[at].code;
            goto done;
        }
    }
    if (known < CODES_MAX && MPI_Add_error_code(class, &code) == MPI_SUCCESS) {
        snprintf(codes[known].text, sizeof codes[known].text, "%s", text);
        MPI_Add_error_string(code, codes[known].text);
        codes[known].class = class;
        codes[known++].code = code;
    }
done:
    pthread_mutex_unlock(&adding);
    return code;
}

int error_of(int class, const char *what, const char *why) {
    char text[MPI_MAX_ERROR_STRING];
    snprintf(text, sizeof text, "braid: %.60s: %.180s", what, why);
    return code_of(class, text);
}

static int class_of(int number) {
    switch (number) {
    case ENOENT: return MPI_ERR_NO_SUCH_FILE;
    case EEXIST: return MPI_ERR_FILE_EXISTS;
    case EACCES:
    case EPERM: return MPI_ERR_ACCESS;
    case ENOSPC: return MPI_ERR_NO_SPACE;
    case EDQUOT: return MPI_ERR_QUOTA;
    case EROFS: return MPI_ERR_READ_ONLY;
    case EBUSY: return MPI_ERR_FILE_IN_USE;
    case EISDIR:
    case ENOTDIR:
    case ENAMETOOLONG: return MPI_ERR_BAD_FILE;
    case EOPNOTSUPP: return MPI_ERR_UNSUPPORTED_OPERATION;
    case EINVAL: return MPI_ERR_ARG;
    default: return MPI_ERR_IO;
    }
}

int error_of_errno(const char *what) {
    return error_of(class_of(errno), what, braid_error_message());
}

int failed(struct file *file, int code) {
    if (code != MPI_SUCCESS) MPI_File_call_errhandler(file->handle, code);
    return code;
}

int agreed(struct file *file, int code) { return agreed_with(file, code, &(int){0}); }

int agreed_with(struct file *file, int code, int *any) {
    /* Classes have the same number on all ranks, codes do not: a rank without a failure makes a
     * code. The maximum of both: of the worst class, the first rank. */
    int class = MPI_SUCCESS;
    if (code != MPI_SUCCESS) MPI_Error_class(code, &class);
    long long mine[2] = {(long long)class * file->size + (file->size - 1 - file->rank), *any},
              all[2];
    MPI_Allreduce(mine, all, 2, MPI_LONG_LONG, MPI_MAX, file->comm);
    *any = (int)all[1];
    class = (int)(all[0] / file->size);
    int rank = file->size - 1 - (int)(all[0] % file->size);
    if (code != MPI_SUCCESS || class == MPI_SUCCESS) return code;
    char why[64];
    snprintf(why, sizeof why, "it failed on rank %d", rank);
    return error_of(class, file->path, why);
}

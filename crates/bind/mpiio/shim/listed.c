/* File types that show a byte more than once. They are allowed for files opened for reading only
 * (MPI-4.1 14.1.1), but libbraid's views cannot express them. So each copy of the type becomes a
 * list of runs, in the type's order, and a read becomes a list read.
 *
 *   file      ......aaaabbbbcccc......      runs (0, 12), (4, 4), extent 12
 *   stream          aaaabbbbcccc bbbb       then the next copy
 *
 * 1. Each run starts where the one before starts, or later; so does each copy. So the part of the
 *    stream before the end of the file can be found from the front.
 * 2. The runs come from MPI_Pack of bytes that contain their own positions: so the MPI itself
 * defines    the order, whatever the constructor. */
#include "shim.h"

#include <stdlib.h>

enum {
    /* A byte of the type needs six while its positions are searched; three planes can number
     * this many. */
    SPAN_MAX = 1 << 24,
    PLANES = 3,
    /* Pieces of one list read: more than one request to a daemon holds. */
    PIECES_MAX = 1 << 16,
};

struct run {
    int64_t start, bytes, before; /* from the copy's first byte; in the copy's stream */
};

struct listed {
    int64_t begin, extent, span, bytes;
    size_t count;
    struct run runs[];
};

/* The positions of the bytes of one copy, from its first byte. */
static int places_of(MPI_Datatype type, int64_t first, int64_t span, int64_t bytes,
                     uint32_t *places) {
    unsigned char *plane = malloc((size_t)span), *packed = malloc((size_t)bytes);
    int code = plane && packed ? MPI_SUCCESS
                               : error_of(MPI_ERR_NO_MEM, "file type", "no memory to list it");
    for (int at = 0; at < PLANES && code == MPI_SUCCESS; at++) {
        int position = 0;
        for (int64_t byte = 0; byte < span; byte++) plane[byte] = (unsigned char)(byte >> 8 * at);
        code = MPI_Pack((void *)((uintptr_t)plane - (uintptr_t)first), 1, type, packed, (int)bytes,
                        &position, MPI_COMM_SELF);
        if (code == MPI_SUCCESS && position != bytes)
            code = error_of(MPI_ERR_CONVERSION, "file type", "MPI_Pack adds to the data");
        for (int64_t byte = 0; byte < bytes; byte++)
            places[byte] |= (uint32_t)packed[byte] << 8 * at;
    }
    free(plane);
    free(packed);
    return code;
}

static struct listed *runs_of(const uint32_t *places, int64_t bytes) {
    size_t count = 1;
    for (int64_t at = 1; at < bytes; at++) count += places[at] != places[at - 1] + 1;
    struct listed *listed = malloc(sizeof *listed + count * sizeof *listed->runs);
    if (!listed) abort();
    listed->count = 0;
    for (int64_t at = 0; at < bytes; at++) {
        if (at == 0 || places[at] != places[at - 1] + 1)
            listed->runs[listed->count++] = (struct run){places[at], 0, at};
        listed->runs[listed->count - 1].bytes++;
    }
    return listed;
}

/* Checks invariant 1. */
static int checked(const struct listed *listed) {
    for (size_t at = 1; at < listed->count; at++)
        if (listed->runs[at].start < listed->runs[at - 1].start)
            return error_of(MPI_ERR_IO, "file type",
                            "the displacements of a file type must be ascending");
    if (listed->extent <= 0 || listed->extent < listed->runs[listed->count - 1].start)
        return error_of(MPI_ERR_UNSUPPORTED_OPERATION, "file type",
                        "its copies interleave: one starts before the end of the copy before it");
    return MPI_SUCCESS;
}

int listed_of(MPI_Offset displacement, MPI_Datatype type, struct listed **listed) {
    MPI_Count bytes, lower, extent, first, span;
    MPI_Type_size_x(type, &bytes);
    MPI_Type_get_extent_x(type, &lower, &extent);
    MPI_Type_get_true_extent_x(type, &first, &span);
    *listed = NULL;
    int64_t begin;
    if (__builtin_add_overflow((int64_t)displacement, (int64_t)first, &begin) || begin < 0)
        return error_of(MPI_ERR_IO, "file type", "it starts before the file");
    if (bytes > SPAN_MAX || span > SPAN_MAX)
        return error_of(MPI_ERR_UNSUPPORTED_OPERATION, "file type",
                        "it is larger than 16 MiB, and shows a byte twice or is not ascending");
    uint32_t *places = calloc((size_t)bytes, sizeof *places);
    if (!places) abort();
    int code = places_of(type, first, span, bytes, places);
    struct listed *made = code == MPI_SUCCESS ? runs_of(places, bytes) : NULL;
    free(places);
    if (code != MPI_SUCCESS) return code;
    made->begin = begin;
    made->extent = extent;
    made->span = span;
    made->bytes = bytes;
    code = checked(made);
    if (code == MPI_SUCCESS) *listed = made;
    else free(made);
    return code;
}

/* The run that contains a byte of a copy's stream. */
static const struct run *run_at(const struct listed *listed, int64_t at) {
    size_t low = 0, high = listed->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (listed->runs[middle].before <= at) low = middle;
        else high = middle;
    }
    return &listed->runs[low];
}

static int64_t start_of_copy(const struct listed *listed, int64_t copy) {
    return listed->begin + copy * listed->extent;
}

int listed_is_past_all(const struct listed *listed, int64_t at) {
    int64_t by, place;
    return __builtin_mul_overflow(at / listed->bytes, listed->extent, &by) ||
           __builtin_add_overflow(by, listed->begin + listed->span, &place);
}

int64_t listed_to_file(const struct listed *listed, int64_t at) {
    int64_t within = at % listed->bytes;
    const struct run *run = run_at(listed, within);
    return start_of_copy(listed, at / listed->bytes) + run->start + within - run->before;
}

int64_t listed_bytes_below(const struct listed *listed, int64_t offset) {
    /* Copies that end below the offset need no search. */
    int64_t below = offset - listed->begin - listed->span,
            copy = below > 0 ? below / listed->extent : 0;
    for (;; copy++) {
        for (size_t at = 0; at < listed->count; at++) {
            const struct run *run = &listed->runs[at];
            int64_t within = offset - start_of_copy(listed, copy) - run->start;
            if (within < run->bytes)
                return copy * listed->bytes + run->before + (within > 0 ? within : 0);
        }
    }
}

void listed_range(const struct listed *listed, int64_t at, int64_t bytes, int64_t *first,
                  int64_t *length) {
    *first = listed_to_file(listed, at);
    *length = start_of_copy(listed, (at + bytes - 1) / listed->bytes) + listed->span - *first;
}

int listed_read(struct file *file, int64_t at, char *memory, int64_t bytes, int64_t *moved) {
    const struct listed *listed = file->shown.listed;
    int64_t last;
    int code = place_of(file, at + bytes - 1, &last);
    if (code != MPI_SUCCESS) return code;
    size_t capacity = bytes < PIECES_MAX ? (size_t)bytes : PIECES_MAX;
    struct braid_piece *pieces = malloc(capacity * sizeof *pieces);
    if (!pieces) return error_of(MPI_ERR_NO_MEM, file->path, "no memory for the list of the read");
    while (*moved < bytes) {
        size_t count = 0;
        int64_t asked = 0;
        while (count < capacity && *moved + asked < bytes) {
            int64_t position = at + *moved + asked, within = position % listed->bytes,
                    rest = bytes - *moved - asked;
            const struct run *run = run_at(listed, within);
            int64_t here = run->before + run->bytes - within;
            if (here > rest) here = rest;
            pieces[count++] = (struct braid_piece){listed_to_file(listed, position),
                                                   memory + *moved + asked, (size_t)here};
            asked += here;
        }
        ssize_t found = braid_read_list(file->whole, pieces, count);
        if (found < 0) {
            code = error_of_errno(file->path);
            break;
        }
        if (found < asked) {
            /* End of file: only the part of the stream before it counts, even if later runs start
             * below it again. */
            int64_t size = braid_size(file->whole);
            if (size < 0) code = error_of_errno(file->path);
            int64_t below = size < 0 ? 0 : listed_bytes_below(listed, size) - at - *moved;
            *moved += below < 0 ? 0 : below < found ? below : found;
            break;
        }
        *moved += asked;
    }
    free(pieces);
    return code;
}

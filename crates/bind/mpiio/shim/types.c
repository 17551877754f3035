/* Datatypes as patterns of libbraid. Regular types stay formulas: vectors, subarrays and
 * block-cyclic arrays nest. Only irregular types (indexed, struct) become lists, of as many entries
 * as they were given. MPI-4.1 5.1, 14.1.1. */
#include "shim.h"

#include <stdlib.h>

/* The bytes of a type: one run, or a pattern whose first byte is at `first`. */
struct shape {
    int64_t first, bytes, span;
    struct braid_pattern *pattern; /* NULL for a run, and for an empty type */
    /* Of a pattern: maximum number of runs, and number of entries of its lists. */
    int64_t runs, listed;
};

static int64_t runs_of(const struct shape *shape) { return shape->pattern ? shape->runs : 1; }

static const char *const ORDER =
    "the displacements of a file type must be ascending and its parts must not overlap";

static void drop(struct shape *shape) {
    braid_pattern_free(shape->pattern);
    shape->pattern = NULL;
}

static struct braid_pattern *pattern_of(const struct shape *shape) {
    /* A vector with one copy is a copy. */
    return shape->pattern ? braid_pattern_vector(1, 0, shape->pattern)
                          : braid_pattern_bytes((uint64_t)shape->bytes);
}

/* ROMIO uses this class for them, and its tests expect it. */
static int refused(const char *why) { return error_of(MPI_ERR_IO, "file type", why); }
static int too_large(void) { return refused("it is larger than any file"); }
static int no_memory(void) {
    return error_of(MPI_ERR_NO_MEM, "file type", "no memory to analyse it");
}

static int product(int64_t a, int64_t b, int64_t *result) {
    return __builtin_mul_overflow(a, b, result) ? too_large() : MPI_SUCCESS;
}

/* `count` copies, `stride` apart, in place. */
static int repeat(struct shape *shape, int64_t count, int64_t stride) {
    if (count == 0 || shape->bytes == 0) {
        drop(shape);
        *shape = (struct shape){0};
        return MPI_SUCCESS;
    }
    if (count == 1) return MPI_SUCCESS;
    if (stride < shape->span) return refused(ORDER);
    int64_t bytes, last, span;
    if (__builtin_mul_overflow(shape->bytes, count, &bytes) ||
        __builtin_mul_overflow(stride, count - 1, &last) ||
        __builtin_add_overflow(last, shape->span, &span))
        return too_large();
    if (shape->pattern || stride != shape->bytes) {
        struct braid_pattern *child = pattern_of(shape);
        struct braid_pattern *made =
            child ? braid_pattern_vector((uint64_t)count, (uint64_t)stride, child) : NULL;
        braid_pattern_free(child);
        if (!made) return error_of_errno("file type");
        shape->runs = runs_of(shape) * count; /* at most the number of bytes */
        drop(shape);
        shape->pattern = made;
    }
    shape->bytes = bytes;
    shape->span = span;
    return MPI_SUCCESS;
}

/* Joins `count` shapes, each with its `first`, to one. Frees them. */
static int join(struct shape *shapes, int64_t count, struct shape *joined) {
    int code = MPI_SUCCESS, only_runs = 1;
    int64_t kept = 0, bytes = 0;
    for (int64_t at = 0; at < count; at++) {
        if (shapes[at].bytes == 0) continue;
        struct shape *last = kept ? &shapes[kept - 1] : NULL;
        if (last && shapes[at].first < last->first + last->span) code = refused(ORDER);
        bytes += shapes[at].bytes;
        if (last && !last->pattern && !shapes[at].pattern &&
            shapes[at].first == last->first + last->span) {
            last->bytes += shapes[at].bytes;
            last->span += shapes[at].span;
            continue;
        }
        only_runs &= !shapes[at].pattern;
        struct shape moved = shapes[at];
        shapes[at].pattern = NULL;
        shapes[kept++] = moved;
    }
    *joined = (struct shape){0};
    if (code != MPI_SUCCESS || kept == 0) goto done;
    if (kept == 1) {
        *joined = shapes[0];
        shapes[0].pattern = NULL;
        goto done;
    }
    joined->first = shapes[0].first;
    joined->span = shapes[kept - 1].first + shapes[kept - 1].span - shapes[0].first;
    joined->bytes = bytes;
    joined->listed = kept;
    for (int64_t at = 0; at < kept; at++) {
        joined->runs += runs_of(&shapes[at]);
        joined->listed += shapes[at].listed;
    }
    if (only_runs) {
        struct braid_extent *extents = malloc((size_t)kept * sizeof *extents);
        for (int64_t at = 0; extents && at < kept; at++)
            extents[at] = (struct braid_extent){shapes[at].first - joined->first, shapes[at].bytes};
        if (extents) joined->pattern = braid_pattern_extents(extents, (size_t)kept);
        else code = no_memory();
        free(extents);
    } else {
        uint64_t *offsets = malloc((size_t)kept * sizeof *offsets);
        struct braid_pattern **patterns = malloc((size_t)kept * sizeof *patterns);
        if (offsets && patterns) {
            for (int64_t at = 0; at < kept; at++) {
                offsets[at] = (uint64_t)(shapes[at].first - joined->first);
                patterns[at] = pattern_of(&shapes[at]);
            }
            joined->pattern = braid_pattern_struct(
                offsets, (const struct braid_pattern *const *)patterns, (size_t)kept);
            for (int64_t at = 0; at < kept; at++) braid_pattern_free(patterns[at]);
        } else {
            code = no_memory();
        }
        free(offsets);
        free(patterns);
    }
    if (!joined->pattern && code == MPI_SUCCESS) code = error_of_errno("file type");
done:
    for (int64_t at = 0; at < kept; at++) drop(&shapes[at]);
    return code;
}

/* A copy at another offset. */
static int copy_at(const struct shape *shape, int64_t by, struct shape *copy) {
    *copy = *shape;
    copy->pattern = NULL;
    if (shape->pattern && !(copy->pattern = pattern_of(shape))) return error_of_errno("file type");
    if (__builtin_add_overflow(shape->first, by, &copy->first)) return too_large();
    return MPI_SUCCESS;
}

/* Blocks of `lengths` children at `offsets` bytes: a vector for equal lengths and distances,
 * else a list. */
static int blocks(const struct shape *child, int64_t extent, int64_t count, const int64_t *lengths,
                  const int64_t *offsets, struct shape *result) {
    int regular = count > 1;
    for (int64_t at = 1; regular && at < count; at++)
        regular =
            lengths[at] == lengths[0] && offsets[at] - offsets[at - 1] == offsets[1] - offsets[0];
    *result = (struct shape){0};
    if (regular) {
        int code = copy_at(child, offsets[0], result);
        if (code == MPI_SUCCESS) code = repeat(result, lengths[0], extent);
        return code == MPI_SUCCESS ? repeat(result, count, offsets[1] - offsets[0]) : code;
    }
    struct shape *shapes = calloc(count ? (size_t)count : 1, sizeof *shapes);
    if (!shapes) return no_memory();
    int code = MPI_SUCCESS;
    for (int64_t at = 0; at < count && code == MPI_SUCCESS; at++) {
        code = copy_at(child, offsets[at], &shapes[at]);
        if (code == MPI_SUCCESS) code = repeat(&shapes[at], lengths[at], extent);
    }
    if (code == MPI_SUCCESS) code = join(shapes, count, result);
    for (int64_t at = 0; at < count; at++) drop(&shapes[at]);
    free(shapes);
    return code;
}

static int shape_of(MPI_Datatype type, struct shape *shape);

static int named(MPI_Datatype type, struct shape *shape) {
    MPI_Count bytes, first, span;
    MPI_Type_size_x(type, &bytes);
    MPI_Type_get_true_extent_x(type, &first, &span);
    if (bytes == 0 || bytes == span) {
        *shape = (struct shape){first, bytes, bytes, NULL, 0, 0};
        return MPI_SUCCESS;
    }
    /* On current machines, only one of the pairs for MINLOC has a gap: a short, then an int. */
    if (type != MPI_SHORT_INT)
        return error_of(MPI_ERR_UNSUPPORTED_OPERATION, "file type", "a predefined type with gaps");
    struct shape pair[2] = {{0, sizeof(short), sizeof(short), NULL, 0, 0},
                            {sizeof(int), sizeof(int), sizeof(int), NULL, 0, 0}};
    return join(pair, 2, shape);
}

/* Moves on by `skipped` rows, in place; an empty shape stays empty. */
static int shift(struct shape *shape, int64_t skipped, int64_t row) {
    int64_t by;
    if (__builtin_mul_overflow(skipped, row, &by) ||
        __builtin_add_overflow(shape->first, by, &shape->first))
        return too_large();
    return MPI_SUCCESS;
}

/* The arguments of a type's constructor, as 64-bit numbers: integers and addresses in the order of
 * MPI_Type_get_contents. A large-count constructor (MPI_Type_vector_c) has both in one list of
 * counts. MPI-4.1 5.1.13. */
struct arguments {
    int combiner;
    const int64_t *integers, *addresses;
    const MPI_Datatype *types;
    int64_t type_count;
};

/* MPI-4.1 5.1.3. `i`: dimensions, sizes, block, starts, order. */
static int subarray(const int64_t *i, int64_t extent, struct shape *shape) {
    int64_t dimensions = i[0];
    const int64_t *sizes = i + 1, *block = sizes + dimensions, *starts = block + dimensions;
    int fortran = starts[dimensions] == MPI_ORDER_FORTRAN, code = MPI_SUCCESS;
    int64_t row = extent;
    for (int64_t n = 0; n < dimensions && code == MPI_SUCCESS; n++) {
        int64_t at = fortran ? n : dimensions - 1 - n;
        code = repeat(shape, block[at], row);
        if (code == MPI_SUCCESS) code = shift(shape, starts[at], row);
        if (code == MPI_SUCCESS) code = product(row, sizes[at], &row);
    }
    return code;
}

/* Blocks of `k` of `size` rows, distributed over `tasks` in turn: the blocks of one task. */
static int cyclic(struct shape *shape, int64_t size, int64_t k, int64_t tasks, int64_t mine,
                  int64_t row) {
    int64_t round, stride;
    int code = product(k, tasks, &round);
    if (code == MPI_SUCCESS) code = product(round, row, &stride);
    if (code != MPI_SUCCESS) return code;
    int64_t whole = size / round, rest = size % round - mine * k, tail = 0;
    if (rest >= k) whole++;
    else if (rest > 0) tail = rest;
    struct shape parts[2];
    code = copy_at(shape, 0, &parts[1]);
    parts[0] = *shape;
    shape->pattern = NULL;
    if (code == MPI_SUCCESS) code = repeat(&parts[0], k, row);
    if (code == MPI_SUCCESS) code = repeat(&parts[0], whole, stride);
    if (code == MPI_SUCCESS) code = repeat(&parts[1], tail, row);
    if (code == MPI_SUCCESS && tail) code = shift(&parts[1], whole * round, row);
    if (code == MPI_SUCCESS) code = join(parts, 2, shape);
    drop(&parts[0]);
    drop(&parts[1]);
    return code == MPI_SUCCESS ? shift(shape, mine * k, row) : code;
}

/* MPI-4.1 5.1.4. `i`: tasks, rank, dimensions, sizes, distributions, arguments, grid, order. */
static int darray(const int64_t *i, int64_t extent, struct shape *shape) {
    int64_t rank = i[1], dimensions = i[2];
    const int64_t *sizes = i + 3, *how = sizes + dimensions, *arguments = how + dimensions,
                  *grid = arguments + dimensions;
    int fortran = grid[dimensions] == MPI_ORDER_FORTRAN, code = MPI_SUCCESS;
    int64_t row = extent;
    for (int64_t n = 0; n < dimensions && code == MPI_SUCCESS; n++) {
        int64_t at = fortran ? n : dimensions - 1 - n;
        /* Ranks have C order in the grid, whatever the order of the array. */
        int64_t below = 1;
        for (int64_t d = at + 1; d < dimensions; d++) below *= grid[d];
        int64_t mine = rank / below % grid[at], size = sizes[at], k = arguments[at],
                tasks = grid[at];
        if (how[at] == MPI_DISTRIBUTE_NONE) {
            code = repeat(shape, size, row);
        } else {
            /* A block distribution is a cyclic one with one block per task. */
            if (k == MPI_DISTRIBUTE_DFLT_DARG)
                k = how[at] == MPI_DISTRIBUTE_BLOCK ? size / tasks + (size % tasks != 0) : 1;
            code = cyclic(shape, size, k, tasks, mine, row);
        }
        if (code == MPI_SUCCESS) code = product(row, size, &row);
    }
    return code;
}

/* MPI-4.1 5.1.2: a list of blocks, with a length for each or one for all, at byte offsets or at
 * multiples of the extent. */
static int indexed(const struct arguments *given, const struct shape *child, int64_t extent,
                   struct shape *shape) {
    const int64_t *i = given->integers;
    int64_t count = i[0], *lengths = malloc((size_t)(count + 1) * sizeof *lengths);
    int64_t *offsets = malloc((size_t)(count + 1) * sizeof *offsets);
    int code = lengths && offsets ? MPI_SUCCESS : no_memory();
    int same_length = given->combiner == MPI_COMBINER_INDEXED_BLOCK ||
                      given->combiner == MPI_COMBINER_HINDEXED_BLOCK;
    int in_extents =
        given->combiner == MPI_COMBINER_INDEXED || given->combiner == MPI_COMBINER_INDEXED_BLOCK;
    for (int64_t at = 0; at < count && code == MPI_SUCCESS; at++) {
        lengths[at] = same_length ? i[1] : i[1 + at];
        if (in_extents) code = product(i[(same_length ? 2 : 1 + count) + at], extent, &offsets[at]);
        else offsets[at] = given->addresses[at];
    }
    if (code == MPI_SUCCESS) code = blocks(child, extent, count, lengths, offsets, shape);
    free(lengths);
    free(offsets);
    return code;
}

static int structure(const struct arguments *given, struct shape *shape) {
    int64_t count = given->integers[0];
    struct shape *shapes = calloc((size_t)count + 1, sizeof *shapes);
    int code = shapes ? MPI_SUCCESS : no_memory();
    for (int64_t at = 0; at < count && code == MPI_SUCCESS; at++) {
        MPI_Count first, extent;
        MPI_Type_get_extent_x(given->types[at], &first, &extent);
        code = shape_of(given->types[at], &shapes[at]);
        if (code == MPI_SUCCESS) code = repeat(&shapes[at], given->integers[1 + at], extent);
        if (code == MPI_SUCCESS) code = shift(&shapes[at], given->addresses[at], 1);
    }
    if (code == MPI_SUCCESS) code = join(shapes, count, shape);
    for (int64_t at = 0; shapes && at < count; at++) drop(&shapes[at]);
    free(shapes);
    return code;
}

/* Types constructed from one other type. */
static int derived(const struct arguments *given, struct shape *shape) {
    struct shape child = {0};
    MPI_Count first, extent;
    int64_t stride = 0;
    const int64_t *i = given->integers;
    int code = shape_of(given->types[0], &child);
    if (code != MPI_SUCCESS) return code;
    MPI_Type_get_extent_x(given->types[0], &first, &extent);
    switch (given->combiner) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_RESIZED: *shape = child; return MPI_SUCCESS;
    case MPI_COMBINER_CONTIGUOUS: *shape = child; return repeat(shape, i[0], extent);
    case MPI_COMBINER_VECTOR:
    case MPI_COMBINER_HVECTOR:
        *shape = child;
        code = repeat(shape, i[1], extent);
        if (given->combiner == MPI_COMBINER_HVECTOR) stride = given->addresses[0];
        else if (code == MPI_SUCCESS) code = product(i[2], extent, &stride);
        return code == MPI_SUCCESS ? repeat(shape, i[0], stride) : code;
    case MPI_COMBINER_SUBARRAY: *shape = child; return subarray(i, extent, shape);
    case MPI_COMBINER_DARRAY: *shape = child; return darray(i, extent, shape);
    case MPI_COMBINER_INDEXED:
    case MPI_COMBINER_HINDEXED:
    case MPI_COMBINER_INDEXED_BLOCK:
    case MPI_COMBINER_HINDEXED_BLOCK: code = indexed(given, &child, extent, shape); break;
    default:
        code = error_of(MPI_ERR_UNSUPPORTED_OPERATION, "file type", "its constructor is unknown");
    }
    drop(&child);
    return code;
}

/* The number of arguments of each kind in a type's constructor. */
struct envelope {
    MPI_Count integers, addresses, counts, types;
    int combiner;
};

/* For a type of a large-count constructor, MPI_Type_get_envelope raises an error, which ends the
 * job. */
static int envelope_of(MPI_Datatype type, struct envelope *found) {
#if MPI_VERSION >= 4
    return MPI_Type_get_envelope_c(type, &found->integers, &found->addresses, &found->counts,
                                   &found->types, &found->combiner);
#else
    int integers, addresses, types,
        code = MPI_Type_get_envelope(type, &integers, &addresses, &types, &found->combiner);
    found->integers = integers;
    found->addresses = addresses;
    found->counts = 0;
    found->types = types;
    return code;
#endif
}

/* Includes types by precision and range. To free one is an error (MPI-4.1 19.1.5), which Open MPI
 * raises on MPI_COMM_WORLD. */
static int is_predefined(const struct envelope *envelope) {
    return envelope->combiner == MPI_COMBINER_NAMED ||
           envelope->combiner == MPI_COMBINER_F90_INTEGER ||
           envelope->combiner == MPI_COMBINER_F90_REAL ||
           envelope->combiner == MPI_COMBINER_F90_COMPLEX;
}

int is_named(MPI_Datatype type) {
    struct envelope envelope;
    return envelope_of(type, &envelope) == MPI_SUCCESS && envelope.combiner == MPI_COMBINER_NAMED;
}

/* The result of MPI_Type_get_contents; `counts` only for large-count constructors. */
struct contents {
    int *integers;
    MPI_Aint *addresses;
    MPI_Count *counts;
    MPI_Datatype *types;
};

static int contents_of(MPI_Datatype type, const struct envelope *envelope,
                       const struct contents *capacity) {
#if MPI_VERSION >= 4
    return MPI_Type_get_contents_c(type, envelope->integers, envelope->addresses, envelope->counts,
                                   envelope->types, capacity->integers, capacity->addresses,
                                   capacity->counts, capacity->types);
#else
    return MPI_Type_get_contents(type, (int)envelope->integers, (int)envelope->addresses,
                                 (int)envelope->types, capacity->integers, capacity->addresses,
                                 capacity->types);
#endif
}

/* How many counts of a large-count constructor correspond to integers of the other form; those
 * after them correspond to addresses. */
static int64_t integers_among(int combiner, const MPI_Count *counts, int64_t count) {
    switch (combiner) {
    case MPI_COMBINER_RESIZED: return 0;
    case MPI_COMBINER_HVECTOR:
    case MPI_COMBINER_HINDEXED_BLOCK: return 2;
    case MPI_COMBINER_HINDEXED:
    case MPI_COMBINER_STRUCT: return 1 + counts[0];
    default: return count;
    }
}

/* Converts contents to 64 bits in `wide`, which has space for all of them, and points `given` to
 * them. */
static void widen(const struct envelope *envelope, const struct contents *found, int64_t *wide,
                  struct arguments *given) {
    int64_t at = 0, next = 0, integers = envelope->integers;
    /* Array constructors have a few integers before their sizes, even if the sizes are counts. */
    int64_t leading = envelope->combiner == MPI_COMBINER_SUBARRAY ? 1
                      : envelope->combiner == MPI_COMBINER_DARRAY ? 3
                                                                  : 0;
    while (next < leading && next < integers) wide[at++] = found->integers[next++];
    for (int64_t count = 0; count < envelope->counts; count++) wide[at++] = found->counts[count];
    while (next < integers) wide[at++] = found->integers[next++];
    for (int64_t address = 0; address < envelope->addresses; address++)
        wide[at++] = found->addresses[address];
    int64_t before_addresses = integers;
    if (envelope->counts > 0)
        before_addresses += integers_among(envelope->combiner, found->counts, envelope->counts);
    *given = (struct arguments){envelope->combiner, wide, wide + before_addresses, found->types,
                                envelope->types};
}

static void free_contents(struct contents *contents, int64_t types) {
    for (int64_t at = 0; at < types; at++) {
        struct envelope envelope;
        /* We must free contents that are not predefined. */
        if (envelope_of(contents->types[at], &envelope) == MPI_SUCCESS && !is_predefined(&envelope))
            MPI_Type_free(&contents->types[at]);
    }
    free(contents->integers);
    free(contents->addresses);
    free(contents->counts);
    free(contents->types);
}

static int shape_of(MPI_Datatype type, struct shape *shape) {
    struct envelope envelope;
    struct arguments given;
    int code = envelope_of(type, &envelope);
    if (code != MPI_SUCCESS) return code;
    if (is_predefined(&envelope)) return named(type, shape);
    struct contents contents = {
        .integers = calloc((size_t)envelope.integers + 1, sizeof *contents.integers),
        .addresses = calloc((size_t)envelope.addresses + 1, sizeof *contents.addresses),
        .counts = calloc((size_t)envelope.counts + 1, sizeof *contents.counts),
        .types = calloc((size_t)envelope.types + 1, sizeof *contents.types),
    };
    int64_t *wide = calloc((size_t)(envelope.integers + envelope.addresses + envelope.counts) + 1,
                           sizeof *wide),
            types = 0;
    if (contents.integers && contents.addresses && contents.counts && contents.types && wide) {
        code = contents_of(type, &envelope, &contents);
    } else {
        code = no_memory();
    }
    if (code == MPI_SUCCESS) {
        types = envelope.types;
        widen(&envelope, &contents, wide, &given);
        if (given.combiner == MPI_COMBINER_STRUCT) code = structure(&given, shape);
        else if (given.type_count == 1) code = derived(&given, shape);
        else
            code =
                error_of(MPI_ERR_UNSUPPORTED_OPERATION, "file type", "its constructor is unknown");
    }
    free_contents(&contents, types);
    free(wide);
    if (code != MPI_SUCCESS) drop(shape);
    return code;
}

/* `once`: if its copies overlap, only the first one is shown. */
int view_of(MPI_Offset displacement, MPI_Datatype filetype, int once, struct shown *shown) {
    struct shape shape = {0};
    MPI_Count first, extent;
    *shown = (struct shown){.piece_bytes = INT64_MAX, .once = INT64_MAX};
    int code = shape_of(filetype, &shape);
    if (code != MPI_SUCCESS) return code;
    MPI_Type_get_extent_x(filetype, &first, &extent);
    int64_t begin;
    if (shape.bytes == 0) {
        /* It shows nothing. */
    } else if (__builtin_add_overflow((int64_t)displacement, shape.first, &begin) || begin < 0) {
        code = refused("it starts before the file");
    } else if (extent < shape.span && !once) {
        code = error_of(MPI_ERR_UNSUPPORTED_OPERATION, "file type",
                        "its copies overlap: its extent is less than its span");
    } else {
        struct braid_pattern *pattern = pattern_of(&shape);
        if (extent < shape.span) {
            shown->once = shape.bytes;
            extent = shape.span;
        }
        shown->view = pattern ? braid_view_nested(begin, extent, pattern) : NULL;
        braid_pattern_free(pattern);
        if (!shown->view) code = error_of_errno("file type");
        /* Copies without a gap between them are one piece. */
        if (shape.pattern || shape.bytes != extent)
            shown->piece_bytes = shape.bytes / runs_of(&shape);
        shown->entries = shape.listed;
        shown->first = begin;
        shown->extent = extent;
        shown->bytes = shape.bytes;
    }
    drop(&shape);
    return code;
}

int is_contiguous(MPI_Datatype type) {
    MPI_Count bytes, first, extent;
    MPI_Type_size_x(type, &bytes);
    MPI_Type_get_extent_x(type, &first, &extent);
    if (first != 0 || bytes != extent) return 0;
    /* Size and extent prove nothing: the pieces may be in another order. Only one run is
     * contiguous. */
    struct shape shape = {0};
    int contiguous = shape_of(type, &shape) == MPI_SUCCESS && !shape.pattern && shape.first == 0 &&
                     shape.bytes == bytes;
    drop(&shape);
    return contiguous;
}

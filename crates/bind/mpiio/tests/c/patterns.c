/* Patterns of parallel programs: `patterns NAME braid:/path reference MODE`, MODE for the hint
 * braid_collective. All ranks write a file through views. Rank 0 writes the expected content to a
 * plain file, element by element. Then all ranks read their parts back. Element e of a file is
 * value_of(e). With LARGE, BTIO and the tiles have the sizes of real programs. */
#include "check.h"

static MPI_File file;
static const char *reference;

static void open_file(const char *name, const char *way) {
    MPI_Info hints;
    MPI_Info_create(&hints);
    MPI_Info_set(hints, "braid_collective", way);
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE, hints, &file));
    MPI_Info_free(&hints);
}

/* Elements 0 to `elements` of the reference, and zeros for those that no rank writes. */
static void write_reference(uint64_t elements, int (*is_written)(uint64_t)) {
    if (rank != 0) return;
    FILE *plain = fopen(reference, "w");
    for (uint64_t at = 0; at < elements; at++) {
        uint64_t value = !is_written || is_written(at) ? value_of(at) : 0;
        fwrite(&value, sizeof value, 1, plain);
    }
    if (!plain || fclose(plain) != 0) MPI_Abort(MPI_COMM_WORLD, 1);
}

static int count_of(MPI_Status *status) {
    int count;
    MPI_Get_count(status, MPI_UINT64_T, &count);
    return count;
}

/* Writes and reads `elements` elements of this rank's view, from plain memory. */
static void round_trip(MPI_Datatype filetype, const uint64_t *mine, int elements) {
    MPI_Status status;
    uint64_t *back = calloc((size_t)elements + 1, sizeof *back);
    OK(MPI_File_set_view(file, 0, MPI_UINT64_T, filetype, "native", MPI_INFO_NULL));
    OK(MPI_File_write_all(file, mine, elements, MPI_UINT64_T, &status));
    SAME(count_of(&status), elements);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_read_at_all(file, 0, back, elements, MPI_UINT64_T, &status));
    SAME(count_of(&status), elements);
    SAME(memcmp(mine, back, (size_t)elements * sizeof *mine), 0);
    /* In two parts, the second one first, with independent calls. */
    int half = elements / 3;
    memset(back, 0, (size_t)elements * sizeof *back);
    OK(MPI_File_read_at(file, half, back + half, elements - half, MPI_UINT64_T, &status));
    OK(MPI_File_read_at(file, 0, back, half, MPI_UINT64_T, &status));
    SAME(memcmp(mine, back, (size_t)elements * sizeof *mine), 0);
    free(back);
}

/* NAS BTIO: a cube of cells of 5 numbers, distributed over the ranks in blocks along a diagonal, so
 * that each rank has one in every layer. Blocks have 2 ghost cells on each side in memory. Several
 * time steps follow each other in the file. Here 2 layers for 2 ranks; LARGE is NPB's class A, with
 * fewer steps. */
#ifdef LARGE
enum { N = 64 };
#else
enum { N = 12 };
#endif
enum { HALF = N / 2, GHOST = 2, SIDE = HALF + 2 * GHOST, LONG = N + 2 * GHOST, STEPS = 3 };

static void btio(void) {
    static uint64_t u[2][SIDE][LONG][SIDE][5], back[2][SIDE][LONG][SIDE][5];
    MPI_Datatype blocks[2], memory[2], filetype, memtype;
    int lengths[2] = {1, 1};
    MPI_Aint zeros[2] = {0, 0}, places[2];
    for (int k = 0; k < 2; k++) {
        int i = (rank + k) % 2;
        int sizes[4] = {N, N, N, 5}, block[4] = {HALF, N, HALF, 5},
            starts[4] = {k * HALF, 0, i * HALF, 0};
        OK(MPI_Type_create_subarray(4, sizes, block, starts, MPI_ORDER_C, MPI_UINT64_T,
                                    &blocks[k]));
        int bordered[4] = {SIDE, LONG, SIDE, 5}, inner[4] = {GHOST, GHOST, GHOST, 0};
        OK(MPI_Type_create_subarray(4, bordered, block, inner, MPI_ORDER_C, MPI_UINT64_T,
                                    &memory[k]));
        places[k] = (char *)u[k] - (char *)u[0];
    }
    OK(MPI_Type_create_struct(2, lengths, zeros, blocks, &filetype));
    OK(MPI_Type_create_struct(2, lengths, places, memory, &memtype));
    OK(MPI_Type_commit(&filetype));
    OK(MPI_Type_commit(&memtype));
    MPI_Offset mine = 2 * HALF * N * HALF;
    OK(MPI_File_set_view(file, 0, MPI_UINT64_T, filetype, "native", MPI_INFO_NULL));
    for (int step = 0; step < STEPS; step++) {
        memset(u, 0xee, sizeof u);
        for (int k = 0; k < 2; k++)
            for (int z = 0; z < HALF; z++)
                for (int y = 0; y < N; y++)
                    for (int x = 0; x < HALF; x++)
                        for (int m = 0; m < 5; m++) {
                            uint64_t cell =
                                ((uint64_t)(k * HALF + z) * N + y) * N + (rank + k) % 2 * HALF + x;
                            u[k][z + GHOST][y + GHOST][x + GHOST][m] =
                                value_of(((uint64_t)step * N * N * N + cell) * 5 + m);
                        }
        OK(MPI_File_write_at_all(file, step * mine * 5, u, 1, memtype, MPI_STATUS_IGNORE));
        memset(back, 0xee, sizeof back);
        OK(MPI_File_read_at_all(file, step * mine * 5, back, 1, memtype, MPI_STATUS_IGNORE));
        SAME(memcmp(u, back, sizeof u), 0); /* ghost cells do not change */
    }
    write_reference((uint64_t)STEPS * N * N * N * 5, NULL);
    for (int k = 0; k < 2; k++) {
        MPI_Type_free(&blocks[k]);
        MPI_Type_free(&memory[k]);
    }
    MPI_Type_free(&filetype);
    MPI_Type_free(&memtype);
}

/* A 2-D array in tiles side by side. Each rank writes its tile from memory with a border, and reads
 * it with the ghost cells of its neighbours: the reads of the ranks overlap. */
#ifdef LARGE
enum { ROWS = 1500, COLUMNS = 1031 };
#else
enum { ROWS = 90, COLUMNS = 61 };
#endif
enum { BORDER = 3 };

static void tiles(void) {
    int columns = COLUMNS * size, sizes[2] = {ROWS, columns}, tile[2] = {ROWS, COLUMNS},
        starts[2] = {0, rank * COLUMNS};
    int bordered[2] = {ROWS + 2 * BORDER, COLUMNS + 2 * BORDER}, inner[2] = {BORDER, BORDER};
    static uint64_t memory[ROWS + 2 * BORDER][COLUMNS + 2 * BORDER];
    MPI_Datatype filetype, memtype;
    OK(MPI_Type_create_subarray(2, sizes, tile, starts, MPI_ORDER_C, MPI_UINT64_T, &filetype));
    OK(MPI_Type_create_subarray(2, bordered, tile, inner, MPI_ORDER_C, MPI_UINT64_T, &memtype));
    OK(MPI_Type_commit(&filetype));
    OK(MPI_Type_commit(&memtype));
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++)
            memory[row + BORDER][column + BORDER] =
                value_of((uint64_t)row * columns + rank * COLUMNS + column);
    OK(MPI_File_set_view(file, 0, MPI_UINT64_T, filetype, "native", MPI_INFO_NULL));
    OK(MPI_File_write_all(file, memory, 1, memtype, MPI_STATUS_IGNORE));
    MPI_Barrier(MPI_COMM_WORLD);
    int left = rank > 0 ? BORDER : 0, right = rank < size - 1 ? BORDER : 0;
    int wide[2] = {ROWS, COLUMNS + left + right}, from[2] = {0, rank * COLUMNS - left};
    MPI_Datatype wider;
    OK(MPI_Type_create_subarray(2, sizes, wide, from, MPI_ORDER_C, MPI_UINT64_T, &wider));
    OK(MPI_Type_commit(&wider));
    uint64_t *back = malloc((size_t)wide[0] * wide[1] * sizeof *back);
    OK(MPI_File_set_view(file, 0, MPI_UINT64_T, wider, "native", MPI_INFO_NULL));
    OK(MPI_File_read_all(file, back, wide[0] * wide[1], MPI_UINT64_T, MPI_STATUS_IGNORE));
    for (int at = 0; at < wide[0] * wide[1]; at++)
        SAME(back[at], value_of((uint64_t)(at / wide[1]) * columns + from[1] + at % wide[1]));
    free(back);
    write_reference((uint64_t)ROWS * columns, NULL);
    MPI_Type_free(&filetype);
    MPI_Type_free(&memtype);
    MPI_Type_free(&wider);
}

/* Block-cyclic arrays: blocks that do not divide the array, every kind of distribution, both
 * orders, both grids. */
static void cyclic_of(int rows, int columns, int order, const int how[2], const int blocks[2],
                      int down) {
    int sizes[2] = {rows, columns}, grid[2] = {down ? size : 1, down ? 1 : size};
    MPI_Datatype filetype;
    OK(MPI_Type_create_darray(size, rank, 2, sizes, how, blocks, grid, order, MPI_UINT64_T,
                              &filetype));
    OK(MPI_Type_commit(&filetype));
    uint64_t *mine = malloc((size_t)rows * columns * sizeof *mine);
    int elements = 0;
    for (int64_t at = 0; at < (int64_t)rows * columns; at++) {
        /* In the file the last index of C, or the first of Fortran, is the fastest. */
        int index[2] = {order == MPI_ORDER_C ? (int)(at / columns) : (int)(at % rows),
                        order == MPI_ORDER_C ? (int)(at % columns) : (int)(at / rows)};
        int d = down ? 0 : 1, block = blocks[d];
        if (how[d] == MPI_DISTRIBUTE_BLOCK && block == MPI_DISTRIBUTE_DFLT_DARG)
            block = (sizes[d] + size - 1) / size;
        if (how[d] == MPI_DISTRIBUTE_CYCLIC && block == MPI_DISTRIBUTE_DFLT_DARG) block = 1;
        int owner = how[d] == MPI_DISTRIBUTE_NONE ? 0 : index[d] / block % size;
        if (owner == rank) mine[elements++] = value_of((uint64_t)at);
    }
    round_trip(filetype, mine, elements);
    free(mine);
    MPI_Type_free(&filetype);
}

static void cyclic(void) {
    int any = MPI_DISTRIBUTE_DFLT_DARG, both[2] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_CYCLIC};
    int block[2] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_BLOCK},
        none[2] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_NONE};
    int three[2] = {3, 2}, default_of[2] = {any, any}, large[2] = {64, 32};
    for (int order = 0; order < 2; order++) {
        for (int down = 0; down < 2; down++) {
            int how = order ? MPI_ORDER_FORTRAN : MPI_ORDER_C;
            cyclic_of(13, 11, how, both, three, down);
            cyclic_of(13, 11, how, both, default_of, down);
            cyclic_of(13, 11, how, block, default_of, down);
        }
        int of_none[2] = {3, any};
        cyclic_of(13, 11, order ? MPI_ORDER_FORTRAN : MPI_ORDER_C, none, of_none, 1);
    }
    cyclic_of(700, 500, MPI_ORDER_C, both, large, 1);
    cyclic_of(700, 500, MPI_ORDER_FORTRAN, both, large, 0);
    write_reference(700 * 500, NULL);
}

/* `group` numbers of every rank in turn: the simple strided pattern, 4 MiB in total. */
static void in_turn(int group) {
    int groups = (512 * 512) / group;
    MPI_Datatype filetype;
    OK(MPI_Type_vector(groups, group, group * size, MPI_UINT64_T, &filetype));
    MPI_Datatype placed;
    int one = 1;
    MPI_Aint at = (MPI_Aint)rank * group * 8;
    OK(MPI_Type_create_struct(1, &one, &at, &filetype, &placed));
    OK(MPI_Type_commit(&placed));
    uint64_t *mine = malloc((size_t)group * groups * sizeof *mine);
    for (int e = 0; e < group * groups; e++)
        mine[e] =
            value_of((uint64_t)(e / group) * group * size + (uint64_t)rank * group + e % group);
    round_trip(placed, mine, group * groups);
    write_reference((uint64_t)group * groups * size, NULL);
    free(mine);
    MPI_Type_free(&filetype);
    MPI_Type_free(&placed);
}

/* 4 KiB, and a size that the daemons leave to each rank. */
static void strided(void) { in_turn(512); }
static void blocks(void) { in_turn(2048); }

/* Irregular lists, with a resized extent and tiled; and vectors of vectors. */
enum { PERIOD = 40 };
static const int LENGTHS[5] = {1, 3, 2, 5, 1}, PLACES[5] = {0, 3, 8, 11, 19};

static int irregular_written(uint64_t at) {
    int inside = (int)(at % PERIOD) % 20;
    for (int n = 0; n < 5; n++)
        if (inside >= PLACES[n] && inside < PLACES[n] + LENGTHS[n])
            return (int)(at % PERIOD / 20) < 2;
    return 0;
}

static void irregular(void) {
    enum { TILES = 50, EACH = 12 };
    MPI_Datatype indexed, filetype;
    int places[5];
    for (int n = 0; n < 5; n++) places[n] = PLACES[n] + rank * 20;
    OK(MPI_Type_indexed(5, LENGTHS, places, MPI_UINT64_T, &indexed));
    OK(MPI_Type_create_resized(indexed, 0, PERIOD * 8, &filetype));
    OK(MPI_Type_commit(&filetype));
    uint64_t mine[TILES * EACH];
    int elements = 0;
    for (int tile = 0; tile < TILES; tile++)
        for (int n = 0; n < 5; n++)
            for (int e = 0; e < LENGTHS[n]; e++)
                mine[elements++] = value_of((uint64_t)tile * PERIOD + places[n] + e);
    round_trip(filetype, mine, elements);
    /* Up to the last element of the last rank. */
    write_reference((uint64_t)TILES * PERIOD, irregular_written);
    MPI_Type_free(&indexed);
    MPI_Type_free(&filetype);
}

static int nested_written(uint64_t at) { return at % 32 < 4 * 2 && at % 512 < 32 * 8; }

static void nested(void) {
    /* 2 numbers of every 8, 4 of these in every 32 ... as two vectors: each rank has 1 number of
     * the 2. */
    enum { TILES = 6 };
    MPI_Datatype inner, outer, placed, filetype;
    int one = 1;
    MPI_Aint at = (MPI_Aint)rank * 8;
    OK(MPI_Type_vector(4, 1, 2, MPI_UINT64_T, &inner));
    OK(MPI_Type_create_hvector(8, 1, 32 * 8, inner, &outer));
    OK(MPI_Type_create_struct(1, &one, &at, &outer, &placed));
    OK(MPI_Type_create_resized(placed, 0, 512 * 8, &filetype));
    OK(MPI_Type_commit(&filetype));
    uint64_t mine[TILES * 32];
    int elements = 0;
    for (int tile = 0; tile < TILES; tile++)
        for (int row = 0; row < 8; row++)
            for (int e = 0; e < 4; e++)
                mine[elements++] = value_of((uint64_t)tile * 512 + row * 32 + e * 2 + rank);
    round_trip(filetype, mine, elements);
    write_reference((TILES - 1) * 512 + 7 * 32 + 8, nested_written);
    MPI_Type_free(&inner);
    MPI_Type_free(&outer);
    MPI_Type_free(&placed);
    MPI_Type_free(&filetype);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } patterns[] = {{"btio", btio},       {"tiles", tiles},   {"cyclic", cyclic},
                    {"strided", strided}, {"blocks", blocks}, {"irregular", irregular},
                    {"nested", nested}};
    begin(&argc, &argv);
    SAME(argc, 5);
    SAME(size, 2);
    reference = argv[3];
    for (size_t at = 0; at < sizeof patterns / sizeof *patterns; at++) {
        if (strcmp(patterns[at].name, argv[1])) continue;
        open_file(argv[2], argv[4]);
        patterns[at].run();
        OK(MPI_File_close(&file));
        if (rank == 0) printf("%s ok\n", argv[1]);
    }
    MPI_Finalize();
    return 0;
}

/* The calls of MPI-IO: `calls NAME braid:/path`, on 2 ranks. */
#include "check.h"
#include <dirent.h>
#include <sys/stat.h>

static const char *path;

static MPI_File opened(int mode) {
    MPI_File file;
    OK(MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &file));
    return file;
}

static MPI_File fresh(void) { return opened(MPI_MODE_RDWR | MPI_MODE_CREATE); }

static int ints(MPI_Status *status) {
    int count;
    MPI_Get_count(status, MPI_INT, &count);
    return count;
}

static void opening(void) {
    MPI_File file;
    char other[300];
    snprintf(other, sizeof other, "%s-none", path);
    CLASS(MPI_File_open(MPI_COMM_WORLD, other, MPI_MODE_RDONLY, MPI_INFO_NULL, &file),
          MPI_ERR_NO_SUCH_FILE);
    CLASS(MPI_File_open(MPI_COMM_WORLD, other, MPI_MODE_RDONLY | MPI_MODE_WRONLY, MPI_INFO_NULL,
                        &file),
          MPI_ERR_AMODE);
    CLASS(MPI_File_open(MPI_COMM_WORLD, other, MPI_MODE_RDONLY | MPI_MODE_CREATE, MPI_INFO_NULL,
                        &file),
          MPI_ERR_AMODE);
    CLASS(MPI_File_open(MPI_COMM_WORLD, other, rank ? MPI_MODE_RDWR : MPI_MODE_WRONLY,
                        MPI_INFO_NULL, &file),
          MPI_ERR_NOT_SAME);
    CLASS(MPI_File_delete(other, MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
    file = opened(MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL);
    int amode, value = 7 + rank;
    OK(MPI_File_get_amode(file, &amode));
    SAME(amode, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL);
    MPI_Group group, world;
    int result;
    OK(MPI_File_get_group(file, &group));
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_compare(group, world, &result);
    SAME(result, MPI_IDENT);
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    OK(MPI_File_write_at(file, rank * 4, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&file));
    SAME(file == MPI_FILE_NULL, 1);
    CLASS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL,
                        MPI_INFO_NULL, &file),
          MPI_ERR_FILE_EXISTS);
    file = opened(MPI_MODE_RDONLY);
    OK(MPI_File_read_at(file, (1 - rank) * 4, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    SAME(value, 7 + 1 - rank);
    CLASS(MPI_File_write(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_READ_ONLY);
    CLASS(MPI_File_set_size(file, 0), MPI_ERR_READ_ONLY);
    OK(MPI_File_close(&file));
    file = opened(MPI_MODE_WRONLY | MPI_MODE_APPEND);
    MPI_Offset at;
    OK(MPI_File_get_position(file, &at));
    SAME(at, 8);
    OK(MPI_File_get_position_shared(file, &at));
    SAME(at, 8);
    CLASS(MPI_File_read(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ACCESS);
    OK(MPI_File_close(&file));
    file = opened(MPI_MODE_RDONLY | MPI_MODE_DELETE_ON_CLOSE);
    OK(MPI_File_close(&file));
    CLASS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file),
          MPI_ERR_NO_SUCH_FILE);
    /* A task by itself. */
    if (rank == 0) {
        OK(MPI_File_open(MPI_COMM_SELF, other, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL,
                         &file));
        OK(MPI_File_close(&file));
        OK(MPI_File_delete(other, MPI_INFO_NULL));
    }
}

static void sizes(void) {
    MPI_File file = fresh();
    MPI_Offset bytes;
    OK(MPI_File_set_size(file, 1000));
    OK(MPI_File_get_size(file, &bytes));
    SAME(bytes, 1000);
    OK(MPI_File_preallocate(file, 500));
    OK(MPI_File_get_size(file, &bytes));
    SAME(bytes, 1000);
    OK(MPI_File_preallocate(file, 5000));
    OK(MPI_File_get_size(file, &bytes));
    SAME(bytes, 5000);
    CLASS(MPI_File_set_size(file, -1), MPI_ERR_ARG);
    OK(MPI_File_set_size(file, 10));
    char buffer[16];
    memset(buffer, 'x', sizeof buffer);
    MPI_Status status;
    OK(MPI_File_read_at(file, 4, buffer, sizeof buffer, MPI_CHAR, &status));
    int count;
    MPI_Get_count(&status, MPI_CHAR, &count);
    SAME(count, 6);
    SAME(buffer[5] == 0 && buffer[6] == 'x', 1);
    OK(MPI_File_read_at(file, 100, buffer, 1, MPI_CHAR, &status));
    MPI_Get_count(&status, MPI_CHAR, &count);
    SAME(count, 0);
    MPI_Aint extent;
    OK(MPI_File_get_type_extent(file, MPI_INT, &extent));
    SAME(extent, 4);
    OK(MPI_File_sync(file));
    OK(MPI_File_close(&file));
}

static void positions(void) {
    MPI_File file = fresh();
    MPI_Datatype filetype, resized, etype, found_etype, found;
    MPI_Offset at, displacement;
    char representation[MPI_MAX_DATAREP_STRING];
    OK(MPI_Type_vector(2, 1, 3, MPI_INT, &filetype));
    OK(MPI_Type_create_resized(filetype, 0, 40, &resized));
    OK(MPI_Type_commit(&resized));
    int out[100], in[100];
    for (int i = 0; i < 100; i++) out[i] = i + rank;
    /* Rank 1 writes after the bytes of rank 0. */
    OK(MPI_File_set_view(file, 8 + rank * 4, MPI_INT, resized, "native", MPI_INFO_NULL));
    OK(MPI_File_get_position(file, &at));
    SAME(at, 0);
    MPI_Status status;
    OK(MPI_File_write(file, out, 10, MPI_INT, &status));
    SAME(ints(&status), 10);
    OK(MPI_File_get_position(file, &at));
    SAME(at, 10);
    OK(MPI_File_get_byte_offset(file, 5, &at));
    SAME(at, 8 + rank * 4 + 2 * 40 + 12);
    OK(MPI_File_seek(file, -3, MPI_SEEK_CUR));
    OK(MPI_File_read(file, in, 3, MPI_INT, &status));
    SAME(in[0] == out[7] && in[2] == out[9], 1);
    OK(MPI_File_seek(file, 2, MPI_SEEK_SET));
    OK(MPI_File_read(file, in, 2, MPI_INT, &status));
    SAME(in[0] == out[2] && in[1] == out[3], 1);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_seek(file, 0, MPI_SEEK_END));
    OK(MPI_File_get_position(file, &at));
    SAME(at, 10);
    CLASS(MPI_File_seek(file, -1, MPI_SEEK_SET), MPI_ERR_ARG);
    CLASS(MPI_File_write_at(file, -1, out, 1, MPI_INT, &status), MPI_ERR_ARG);
    CLASS(MPI_File_write_at(file, 0, out, 3, MPI_CHAR, &status), MPI_ERR_ARG);
    CLASS(MPI_File_write_at(file, 0, out, -3, MPI_INT, &status), MPI_ERR_COUNT);
    OK(MPI_File_get_view(file, &displacement, &found_etype, &found, representation));
    SAME(displacement, 8 + rank * 4);
    SAME(found_etype == MPI_INT, 1);
    SAME(strcmp(representation, "native"), 0);
    MPI_Count bytes, first, extent;
    MPI_Type_size_x(found, &bytes);
    MPI_Type_get_extent_x(found, &first, &extent);
    SAME(bytes == 8 && extent == 40, 1);
    MPI_Type_free(&found);
    /* Wrong views. */
    CLASS(MPI_File_set_view(file, -5, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    CLASS(MPI_File_set_view(file, 0, MPI_INT, MPI_CHAR, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    CLASS(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "my own", MPI_INFO_NULL),
          MPI_ERR_UNSUPPORTED_DATAREP);
    int one[2] = {1, 1}, falling[2] = {5, 0};
    OK(MPI_Type_indexed(2, one, falling, MPI_INT, &etype));
    OK(MPI_Type_commit(&etype));
    CLASS(MPI_File_set_view(file, 0, MPI_INT, etype, "native", MPI_INFO_NULL), MPI_ERR_IO);
    MPI_Type_free(&etype);
    /* After a refused view, the previous one is still set. */
    OK(MPI_File_read_at(file, 0, in, 1, MPI_INT, &status));
    SAME(in[0], out[0]);
    /* A view that shows nothing, on one rank. */
    OK(MPI_Type_contiguous(rank ? 1 : 0, MPI_INT, &etype));
    OK(MPI_Type_commit(&etype));
    OK(MPI_File_set_view(file, 0, MPI_INT, etype, "native", MPI_INFO_NULL));
    OK(MPI_File_read_all(file, in, 1, MPI_INT, &status));
    SAME(ints(&status), rank);
    MPI_Type_free(&etype);
    MPI_Type_free(&filetype);
    MPI_Type_free(&resized);
    OK(MPI_File_close(&file));
}

/* As in PnetCDF: a header, and after it a part of an array. On Open MPI its bounds are those of the
 * array alone, as in MPI 4.1 5.1.7, so that copies overlap; no rank reads past the first. */
static void header_and_array(void) {
    MPI_File file = fresh();
    MPI_Datatype part, filetype;
    MPI_Status status;
    int whole = 10, some = 5, start = rank * 5, out[10], in[10];
    OK(MPI_Type_create_subarray(1, &whole, &some, &start, MPI_ORDER_C, MPI_INT, &part));
    int lengths[2] = {rank == 0 ? 20 : 0, 1};
    MPI_Aint places[2] = {0, 40};
    MPI_Datatype types[2] = {MPI_BYTE, part};
    OK(MPI_Type_create_struct(2, lengths, places, types, &filetype));
    OK(MPI_Type_commit(&filetype));
    int count = rank == 0 ? 10 : 5;
    for (int i = 0; i < count; i++) out[i] = 100 * rank + i;
    OK(MPI_File_set_view(file, 0, MPI_BYTE, filetype, "native", MPI_INFO_NULL));
    OK(MPI_File_write_at_all(file, 0, out, count, MPI_INT, &status));
    OK(MPI_File_read_at_all(file, 0, in, count, MPI_INT, &status));
    for (int i = 0; i < count; i++) SAME(in[i], out[i]);
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    OK(MPI_File_read_at(file, 10, in, 10, MPI_INT, &status));
    for (int i = 0; i < 5; i++) SAME(in[i] == 5 + i && in[5 + i] == 100 + i, 1);
    OK(MPI_File_close(&file));
    MPI_Type_free(&part);
    MPI_Type_free(&filetype);
}

/* A file type that shows a byte twice: legal for a file opened for reading only. */
static void twice(void) {
    MPI_File file = fresh();
    MPI_Datatype overlapping, window, wide, falling, columns, column;
    MPI_Status status;
    MPI_Offset at;
    int out[100], in[100];
    for (int i = 0; i < 100; i++) out[i] = i;
    if (rank == 0) OK(MPI_File_write(file, out, 100, MPI_INT, &status));
    int lengths[2] = {3, 2}, rising[2] = {0, 1}, down[2] = {1, 0}, one[2] = {1, 1};
    OK(MPI_Type_indexed(2, lengths, rising, MPI_INT, &overlapping));
    OK(MPI_Type_commit(&overlapping));
    OK(MPI_Type_create_resized(overlapping, 0, 1 << 20, &wide));
    OK(MPI_Type_commit(&wide));
    OK(MPI_Type_indexed(2, one, down, MPI_INT, &falling));
    OK(MPI_Type_commit(&falling));
    OK(MPI_Type_create_resized(MPI_INT, 0, 2, &window));
    OK(MPI_Type_commit(&window));
    OK(MPI_Type_vector(4, 1, 4, MPI_INT, &column));
    OK(MPI_Type_create_resized(column, 0, 4, &columns));
    OK(MPI_Type_commit(&columns));
    CLASS(MPI_File_set_view(file, 0, MPI_INT, overlapping, "native", MPI_INFO_NULL), MPI_ERR_IO);
    OK(MPI_File_close(&file));
    file = opened(MPI_MODE_RDONLY);
    CLASS(MPI_File_set_view(file, 0, MPI_INT, falling, "native", MPI_INFO_NULL), MPI_ERR_IO);
    /* Columns of one int of 4 x 4: their copies overlap. Only the first one can be read. */
    OK(MPI_File_set_view(file, 0, MPI_INT, columns, "native", MPI_INFO_NULL));
    OK(MPI_File_read_at(file, 1, in, 3, MPI_INT, &status));
    SAME(in[0] == 4 && in[1] == 8 && in[2] == 12, 1);
    CLASS(MPI_File_read_at(file, 1, in, 4, MPI_INT, &status), MPI_ERR_UNSUPPORTED_OPERATION);
    CLASS(MPI_File_read_at_all(file, 4, in, 1, MPI_INT, &status), MPI_ERR_UNSUPPORTED_OPERATION);
    OK(MPI_File_seek(file, 0, MPI_SEEK_END));
    OK(MPI_File_get_position(file, &at));
    SAME(at, 4);
    /* 0 1 2 1 2, then 3 ints further: 3 4 5 4 5. From 4 bytes times rank on. */
    OK(MPI_File_set_view(file, 4 * rank, MPI_INT, overlapping, "native", MPI_INFO_NULL));
    static const int shown[5] = {0, 1, 2, 1, 2};
    OK(MPI_File_read_all(file, in, 50, MPI_INT, &status));
    SAME(ints(&status), 50);
    for (int i = 0; i < 50; i++) SAME(in[i], rank + i / 5 * 3 + shown[i % 5]);
    OK(MPI_File_get_position(file, &at));
    SAME(at, 50);
    OK(MPI_File_get_byte_offset(file, 8, &at));
    SAME(at, 4 * rank + 12 + 4);
    /* From the middle of runs, and in atomic mode. */
    OK(MPI_File_set_atomicity(file, 1));
    OK(MPI_File_read_at(file, 7, in, 4, MPI_INT, &status));
    SAME(in[0] == rank + 5 && in[1] == rank + 4 && in[2] == rank + 5 && in[3] == rank + 6, 1);
    OK(MPI_File_set_atomicity(file, 0));
    /* 100 ints: of copy 33 rank 0 has one; after it the stream ends, though its second run starts
     * lower. Rank 1 has none. */
    for (int i = 0; i < 100; i++) in[i] = -1;
    OK(MPI_File_read_at(file, 160, in, 20, MPI_INT, &status));
    SAME(ints(&status), rank ? 5 : 6);
    SAME(in[4], rank + 98);
    OK(MPI_File_seek(file, 0, MPI_SEEK_END));
    OK(MPI_File_get_position(file, &at));
    SAME(at, rank ? 165 : 166);
    OK(MPI_File_read(file, in, 20, MPI_INT, &status));
    SAME(ints(&status), 0);
    OK(MPI_File_read_at(file, INT64_MAX / 4, in, 1, MPI_INT, &status));
    SAME(ints(&status), 0);
    OK(MPI_File_set_view(file, 0, MPI_INT, wide, "native", MPI_INFO_NULL));
    OK(MPI_File_read_at(file, 1, in, 3, MPI_INT, &status));
    SAME(in[0] == 1 && in[1] == 2 && in[2] == 1, 1);
    CLASS(MPI_File_read_at(file, INT64_MAX / 4, in, 1, MPI_INT, &status), MPI_ERR_ARG);
    /* A window that moves by half an int: copies overlap. */
    OK(MPI_File_set_view(file, 0, MPI_INT, window, "native", MPI_INFO_NULL));
    OK(MPI_File_read_at(file, 2, in, 3, MPI_INT, &status));
    SAME(ints(&status), 3);
    SAME(in[0] == 1 && in[1] == 2 << 16 && in[2] == 2, 1);
    OK(MPI_File_close(&file));
    MPI_Type_free(&overlapping);
    MPI_Type_free(&wide);
    MPI_Type_free(&falling);
    MPI_Type_free(&window);
    MPI_Type_free(&column);
    MPI_Type_free(&columns);
}

static void memory(void) {
    /* Memory in pieces, in another order than in the file; size, extent and true extent look like
     * those of a contiguous type. */
    MPI_File file = fresh();
    MPI_Datatype turned;
    int lengths[3] = {1, 1, 1}, places[3] = {2, 0, 1}, out[6], in[6], plain[6];
    OK(MPI_Type_indexed(3, lengths, places, MPI_INT, &turned));
    OK(MPI_Type_commit(&turned));
    for (int i = 0; i < 6; i++) out[i] = 10 * rank + i;
    OK(MPI_File_write_at(file, rank * 24, out, 2, turned, MPI_STATUS_IGNORE));
    OK(MPI_File_read_at(file, rank * 24, plain, 6, MPI_INT, MPI_STATUS_IGNORE));
    int order[6] = {2, 0, 1, 5, 3, 4};
    for (int i = 0; i < 6; i++) SAME(plain[i], out[order[i]]);
    memset(in, 0, sizeof in);
    OK(MPI_File_read_at(file, rank * 24, in, 2, turned, MPI_STATUS_IGNORE));
    SAME(memcmp(in, out, sizeof in), 0);
    /* A read that ends in the middle leaves the rest unchanged. */
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_set_size(file, 16));
    memset(in, 0xee, sizeof in);
    MPI_Status status;
    OK(MPI_File_read_at(file, 0, in, 2, turned, &status));
    SAME(ints(&status), 4);
    SAME(in[2] == plain[0] - 10 * rank && in[5] == plain[3] - 10 * rank, 1);
    SAME(in[3], (int)0xeeeeeeee);
    /* Absolute addresses with MPI_BOTTOM. */
    MPI_Datatype absolute;
    MPI_Aint address;
    MPI_Get_address(&plain[1], &address);
    OK(MPI_Type_create_hindexed(1, lengths, &address, MPI_INT, &absolute));
    OK(MPI_Type_commit(&absolute));
    plain[1] = 4711;
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_write_at(file, 0, MPI_BOTTOM, 1, absolute, MPI_STATUS_IGNORE));
    OK(MPI_File_read_at(file, 0, in, 1, MPI_INT, MPI_STATUS_IGNORE));
    SAME(in[0], 4711);
    MPI_Type_free(&turned);
    MPI_Type_free(&absolute);
    OK(MPI_File_close(&file));
}

/* MPI-4.1 19.1.5: such types are predefined, and freeing one is an error. Every fourth one in the
 * file, every second one in memory. */
static void precise(void) {
    enum { EACH = 4 };
    MPI_File file = fresh();
    MPI_Datatype kinds[3];
    OK(MPI_Type_create_f90_real(15, MPI_UNDEFINED, &kinds[0]));
    OK(MPI_Type_create_f90_integer(9, &kinds[1]));
    OK(MPI_Type_create_f90_complex(15, MPI_UNDEFINED, &kinds[2]));
    for (int kind = 0; kind < 3; kind++) {
        MPI_Datatype type = kinds[kind], four, filetype, spread, etype, shown;
        MPI_Offset displacement;
        char representation[MPI_MAX_DATAREP_STRING], out[16 * 2 * EACH], in[sizeof out] = "";
        int bytes;
        OK(MPI_Type_size(type, &bytes));
        OK(MPI_Type_contiguous(EACH, type, &four));
        OK(MPI_Type_create_resized(four, 0, 2 * EACH * bytes, &filetype));
        OK(MPI_Type_vector(EACH, 1, 2, type, &spread));
        OK(MPI_Type_commit(&filetype));
        OK(MPI_Type_commit(&spread));
        for (size_t at = 0; at < sizeof out; at++) out[at] = (char)(at + 100 * rank);
        for (int again = 0; again < 3; again++)
            OK(MPI_File_set_view(file, EACH * bytes * rank, type, filetype, "native",
                                 MPI_INFO_NULL));
        OK(MPI_File_write_at_all(file, 0, out, 1, spread, MPI_STATUS_IGNORE));
        OK(MPI_File_read_at_all(file, 0, in, 1, spread, MPI_STATUS_IGNORE));
        for (int at = 0; at < 2 * EACH * bytes; at++) SAME(in[at], at / bytes % 2 ? 0 : out[at]);
        OK(MPI_File_read_at_all(file, 0, in, EACH, type, MPI_STATUS_IGNORE));
        for (int at = 0; at < EACH; at++)
            SAME(memcmp(in + at * bytes, out + 2 * at * bytes, bytes), 0);
        OK(MPI_File_get_view(file, &displacement, &etype, &shown, representation));
        OK(MPI_Type_free(&etype));
        OK(MPI_Type_free(&shown));
        OK(MPI_Type_free(&four));
        OK(MPI_Type_free(&filetype));
        OK(MPI_Type_free(&spread));
    }
    OK(MPI_File_close(&file));
}

static void nonblocking(void) {
    enum { CALLS = 10, EACH = 1000 };
    static int out[CALLS][EACH], in[CALLS][EACH];
    MPI_File file = fresh();
    MPI_Request requests[CALLS];
    MPI_Status statuses[CALLS];
    for (int call = 0; call < CALLS; call++) {
        for (int i = 0; i < EACH; i++) out[call][i] = rank * 1000000 + call * EACH + i;
        OK(MPI_File_iwrite_at(file, (MPI_Offset)(call * size + rank) * EACH * 4, out[call], EACH,
                              MPI_INT, &requests[call]));
    }
    OK(MPI_Waitall(CALLS, requests, statuses));
    for (int call = 0; call < CALLS; call++) SAME(ints(&statuses[call]), EACH);
    for (int call = 0; call < CALLS; call++)
        OK(MPI_File_iread_at_all(file, (MPI_Offset)(call * size + rank) * EACH * 4, in[call], EACH,
                                 MPI_INT, &requests[call]));
    for (int call = 0; call < CALLS; call++) {
        int flag = 0;
        while (!flag) OK(MPI_Test(&requests[call], &flag, &statuses[call]));
        SAME(ints(&statuses[call]), EACH);
    }
    SAME(memcmp(in, out, sizeof in), 0);
    OK(MPI_File_set_view(file, (MPI_Offset)rank * EACH * 4, MPI_INT, MPI_INT, "native",
                         MPI_INFO_NULL));
    MPI_Offset at;
    OK(MPI_File_iread(file, in[0], 10, MPI_INT, &requests[0]));
    OK(MPI_File_iread_all(file, in[0] + 10, 10, MPI_INT, &requests[1]));
    OK(MPI_File_get_position(file, &at));
    SAME(at, 20);
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    SAME(memcmp(in[0], out[0], 20 * sizeof(int)), 0);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_iwrite(file, out[1], 5, MPI_INT, &requests[0]));
    OK(MPI_File_iwrite_all(file, out[1] + 5, 5, MPI_INT, &requests[1]));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    OK(MPI_File_read_at(file, 20, in[0], 10, MPI_INT, MPI_STATUS_IGNORE));
    SAME(memcmp(in[0], out[1], 10 * sizeof(int)), 0);
    OK(MPI_File_close(&file));
}

/* Whether threads of libbraid have completed the started calls. */
static int has_workers(void) {
    char place[300], name[32];
    int found = 0;
    DIR *threads = opendir("/proc/self/task");
    for (struct dirent *entry; (entry = readdir(threads));) {
        snprintf(place, sizeof place, "/proc/self/task/%s/comm", entry->d_name);
        FILE *comm = fopen(place, "r");
        if (!comm) continue;
        if (fgets(name, sizeof name, comm) && !strcmp(name, "braid-started\n")) found = 1;
        fclose(comm);
    }
    closedir(threads);
    return found;
}

static int heard;

static void hears(MPI_File *file, int *code, ...) {
    (void)file, (void)code;
    heard++;
}

/* Nonblocking calls continue while the program computes; every function that waits for them. */
static void background(void) {
    enum { CALLS = 6, EACH = 20000 };
    static int out[CALLS][EACH], in[CALLS][EACH], wide[2 * EACH];
    MPI_Request requests[CALLS + 1];
    MPI_Status statuses[CALLS + 1], status;
    MPI_File file;
    MPI_Info hints, found;
    char value[MPI_MAX_INFO_VAL + 1];
    int flag, index, indices[CALLS], count, left;
    MPI_Offset mine = (MPI_Offset)rank * CALLS * EACH * 4;
    MPI_Info_create(&hints);
    MPI_Info_set(hints, "braid_nonblocking", "at_once");
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE, hints, &file));
    for (int call = 0; call < CALLS; call++)
        for (int i = 0; i < EACH; i++) out[call][i] = rank * 1000000 + call * EACH + i;
    OK(MPI_File_iwrite_at(file, mine, out[0], EACH, MPI_INT, &requests[0]));
    OK(MPI_Wait(&requests[0], &status));
    SAME(ints(&status), EACH);
    SAME(has_workers(), 0);
    MPI_Info_set(hints, "braid_nonblocking", "background");
    OK(MPI_File_set_info(file, hints));
    OK(MPI_File_get_info(file, &found));
    MPI_Info_get(found, "braid_nonblocking", MPI_MAX_INFO_VAL, value, &flag);
    SAME(flag && !strcmp(value, "background"), 1);
    MPI_Info_free(&found);
    MPI_Info_free(&hints);
    for (int call = 0; call < CALLS; call++)
        OK(MPI_File_iwrite_at(file, mine + (MPI_Offset)call * EACH * 4, out[call], EACH, MPI_INT,
                              &requests[call]));
    for (left = CALLS; left > 0; left--) {
        OK(MPI_Waitany(CALLS, requests, &index, &status));
        SAME(index >= 0 && index < CALLS, 1);
        SAME(ints(&status), EACH);
    }
    SAME(has_workers(), 1);
    for (int call = 0; call < CALLS; call++)
        OK(MPI_File_iread_at(file, mine + (MPI_Offset)call * EACH * 4, in[call], EACH, MPI_INT,
                             &requests[call]));
    for (left = CALLS; left > 0; left -= count)
        OK(MPI_Waitsome(CALLS, requests, &count, indices, MPI_STATUSES_IGNORE));
    SAME(memcmp(in, out, sizeof in), 0);
    memset(in, 0, sizeof in);
    for (int call = 0; call < CALLS; call++)
        OK(MPI_File_iread_at_all(file, mine + (MPI_Offset)call * EACH * 4, in[call], EACH, MPI_INT,
                                 &requests[call]));
    for (flag = 0; !flag;) OK(MPI_Testall(CALLS, requests, &flag, statuses));
    for (int call = 0; call < CALLS; call++) SAME(ints(&statuses[call]), EACH);
    SAME(memcmp(in, out, sizeof in), 0);
    /* With a message that the other rank sends after its own wait: both continue. */
    memset(in, 0, sizeof in);
    int token = rank, other = -1;
    MPI_Request sent;
    OK(MPI_File_iread_at(file, mine, in[0], EACH, MPI_INT, &requests[0]));
    MPI_Irecv(&other, 1, MPI_INT, 1 - rank, 0, MPI_COMM_WORLD, &requests[1]);
    if (rank) {
        OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
        MPI_Isend(&token, 1, MPI_INT, 1 - rank, 0, MPI_COMM_WORLD, &sent);
        OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
    } else {
        MPI_Isend(&token, 1, MPI_INT, 1 - rank, 0, MPI_COMM_WORLD, &sent);
        OK(MPI_Waitall(2, requests, statuses));
        SAME(ints(&statuses[0]), EACH);
    }
    MPI_Wait(&sent, MPI_STATUS_IGNORE);
    SAME(other, 1 - rank);
    SAME(memcmp(in[0], out[0], sizeof in[0]), 0);
    /* Memory with gaps, of a type that is freed meanwhile; a short read. */
    MPI_Datatype gaps;
    OK(MPI_Type_vector(EACH, 1, 2, MPI_INT, &gaps));
    OK(MPI_Type_commit(&gaps));
    memset(wide, 0xee, sizeof wide);
    OK(MPI_File_iread_at(file, mine, wide, 1, gaps, &requests[0]));
    MPI_Type_free(&gaps);
    for (flag = 0; !flag;) OK(MPI_Request_get_status(requests[0], &flag, &status));
    OK(MPI_Wait(&requests[0], &status));
    SAME(ints(&status), EACH);
    for (int i = 0; i < EACH; i++)
        SAME(wide[2 * i] == out[0][i] && (i == EACH - 1 || wide[2 * i + 1] == (int)0xeeeeeeee), 1);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_iread_at(file, (MPI_Offset)2 * CALLS * EACH * 4 - 40, in[0], EACH, MPI_INT,
                         &requests[0]));
    OK(MPI_Wait(&requests[0], &status));
    SAME(ints(&status), 10);
    /* A later failure belongs to the request, and the file's error handler gets it. */
    MPI_Errhandler mine_too;
    OK(MPI_File_create_errhandler(hears, &mine_too));
    OK(MPI_File_set_errhandler(file, mine_too));
    MPI_Errhandler_free(&mine_too);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    OK(MPI_File_iwrite_at(file, INT64_MAX - 100, out[0], EACH, MPI_INT, &requests[0]));
    CLASS(MPI_Wait(&requests[0], &status), MPI_ERR_IO);
    SAME(heard, 1);
    OK(MPI_File_set_errhandler(file, MPI_ERRORS_RETURN));
    /* A file that is closed first: the started calls are in it, and its request is complete. A
     * freed request completes too. */
    OK(MPI_File_iwrite_at(file, mine, out[1], EACH, MPI_INT, &requests[0]));
    OK(MPI_File_iwrite_at(file, mine + EACH * 4, out[2], EACH, MPI_INT, &requests[1]));
    OK(MPI_Request_free(&requests[1]));
    OK(MPI_File_close(&file));
    OK(MPI_Wait(&requests[0], &status));
    SAME(ints(&status), EACH);
    file = opened(MPI_MODE_RDONLY);
    OK(MPI_File_read_at(file, mine, in, 2 * EACH, MPI_INT, &status));
    SAME(memcmp(in[0], out[1], sizeof in[0]) || memcmp(in[1], out[2], sizeof in[1]), 0);
    OK(MPI_File_close(&file));
}

static void split(void) {
    MPI_File file = fresh();
    int out[50], in[50], other[1];
    MPI_Status status;
    for (int i = 0; i < 50; i++) out[i] = rank * 100 + i;
    OK(MPI_File_write_at_all_begin(file, rank * 200, out, 50, MPI_INT));
    CLASS(MPI_File_read_all_begin(file, other, 1, MPI_INT), MPI_ERR_OTHER);
    CLASS(MPI_File_write_all_end(file, out, &status), MPI_ERR_OTHER);
    CLASS(MPI_File_close(&file), MPI_ERR_OTHER);
    OK(MPI_File_write_at_all_end(file, out, &status));
    SAME(ints(&status), 50);
    OK(MPI_File_seek(file, rank * 200, MPI_SEEK_SET));
    OK(MPI_File_read_all_begin(file, in, 50, MPI_INT));
    OK(MPI_File_read_all_end(file, in, &status));
    SAME(ints(&status), 50);
    SAME(memcmp(in, out, sizeof in), 0);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_seek(file, 400 + rank * 8, MPI_SEEK_SET));
    OK(MPI_File_write_all_begin(file, out, 2, MPI_INT));
    OK(MPI_File_write_all_end(file, out, &status));
    OK(MPI_File_read_at_all_begin(file, 400 + rank * 8, in, 2, MPI_INT));
    OK(MPI_File_read_at_all_end(file, in, &status));
    SAME(memcmp(in, out, 8), 0);
    OK(MPI_File_write_ordered_begin(file, out, 1 + rank, MPI_INT));
    OK(MPI_File_write_ordered_end(file, out, &status));
    OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    OK(MPI_File_read_ordered_begin(file, in, 1 + rank, MPI_INT));
    OK(MPI_File_read_ordered_end(file, in, &status));
    SAME(memcmp(in, out, 4 * (1 + rank)), 0);
    OK(MPI_File_close(&file));
}

static void shared(void) {
    enum { RECORDS = 40, EACH = 25 };
    MPI_File file = fresh();
    int record[EACH];
    MPI_Offset at;
    OK(MPI_File_set_view(file, 12, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    for (int n = 0; n < RECORDS; n++) {
        for (int i = 0; i < EACH; i++) record[i] = rank * 1000 + n;
        MPI_Request request;
        if (n % 2) {
            OK(MPI_File_write_shared(file, record, EACH, MPI_INT, MPI_STATUS_IGNORE));
        } else {
            OK(MPI_File_iwrite_shared(file, record, EACH, MPI_INT, &request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_get_position_shared(file, &at));
    SAME(at, (MPI_Offset)size * RECORDS * EACH);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    /* Each record once and complete, and those of a rank in its order. */
    int next[2] = {0, 0}, mine = 0, all;
    MPI_Status status;
    for (;;) {
        OK(MPI_File_read_shared(file, record, EACH, MPI_INT, &status));
        if (ints(&status) == 0) break;
        SAME(ints(&status), EACH);
        for (int i = 1; i < EACH; i++) SAME(record[i], record[0]);
        int writer = record[0] / 1000, number = record[0] % 1000;
        SAME(number >= next[writer], 1);
        next[writer] = number + 1;
        mine++;
    }
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    SAME(all, size * RECORDS);
    OK(MPI_File_seek_shared(file, 0, MPI_SEEK_END));
    OK(MPI_File_get_position_shared(file, &at));
    SAME(at, (MPI_Offset)size * RECORDS * EACH);
    CLASS(MPI_File_seek_shared(file, rank, MPI_SEEK_SET), MPI_ERR_NOT_SAME);
    OK(MPI_File_close(&file));
}

/* All ranks reset the pointer that only the last rank used. Then as many views as the caller
 * compares with the calls to servers. */
static void views(void) {
    enum { VIEWS = 1000 };
    MPI_File file = fresh();
    MPI_Offset at;
    int value = 7;
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    if (rank == size - 1) OK(MPI_File_write_shared(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_set_view(file, 4, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    OK(MPI_File_get_position_shared(file, &at));
    SAME(at, 0);
    OK(MPI_File_close(&file));
    file = fresh();
    for (int n = 0; n < VIEWS; n++)
        OK(MPI_File_set_view(file, n, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    OK(MPI_File_close(&file));
}

static void ordered(void) {
    MPI_File file = fresh();
    for (int round = 0; round < 20; round++) {
        int out[3] = {round * 10 + rank, round, rank};
        OK(MPI_File_write_ordered(file, out, rank ? 3 : 1, MPI_INT, MPI_STATUS_IGNORE));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    int all[80];
    MPI_Status status;
    OK(MPI_File_read_at_all(file, 0, all, 80, MPI_INT, &status));
    SAME(ints(&status), 80);
    for (int round = 0; round < 20; round++) {
        SAME(all[round * 4], round * 10);
        SAME(all[round * 4 + 1], round * 10 + 1);
        SAME(all[round * 4 + 2], round);
    }
    OK(MPI_File_seek_shared(file, 4, MPI_SEEK_SET));
    int in[2];
    OK(MPI_File_read_ordered(file, in, 2, MPI_INT, &status));
    SAME(in[0], all[1 + rank * 2]);
    OK(MPI_File_close(&file));
}

static void atomic(void) {
    enum { EACH = 300000, ROUNDS = 12 };
    static int out[EACH], in[EACH];
    MPI_File file = fresh();
    int flag;
    OK(MPI_File_get_atomicity(file, &flag));
    SAME(flag, 0);
    OK(MPI_File_set_atomicity(file, 1));
    OK(MPI_File_get_atomicity(file, &flag));
    SAME(flag, 1);
    OK(MPI_File_write_at(file, 0, out, EACH, MPI_INT, MPI_STATUS_IGNORE));
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < EACH; i++) out[i] = round * 10 + rank;
        if (rank == round % 2)
            OK(MPI_File_write_at(file, 0, out, EACH, MPI_INT, MPI_STATUS_IGNORE));
        else OK(MPI_File_read_at(file, 0, in, EACH, MPI_INT, MPI_STATUS_IGNORE));
        if (rank != round % 2)
            for (int i = 1; i < EACH; i++) SAME(in[i], in[0]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_read_at(file, 0, in, EACH, MPI_INT, MPI_STATUS_IGNORE));
    /* The maximum of both ranks. */
    SAME(in[0] == ROUNDS * 10 + ROUNDS % 2 || in[0] == (ROUNDS - 1) * 10 + (ROUNDS - 1) % 2, 1);
    CLASS(MPI_File_set_atomicity(file, rank), MPI_ERR_NOT_SAME);
    OK(MPI_File_close(&file));
}

static void info(void) {
    MPI_Info hints, found;
    MPI_File file;
    char value[MPI_MAX_INFO_VAL + 1];
    int flag;
    /* The other reserved hints of the standard: ignored, and so not returned. */
    static const char *const ignored[] = {"access_style", "collective_buffering", "cb_block_size",
                                          "chunked",      "chunked_item",         "chunked_size",
                                          "filename",     "io_node_list",         "nb_proc",
                                          "num_io_nodes"};
    const char *environment = getenv("BRAID_MPIIO_COLLECTIVE");
    int is_way = environment && !strcmp(environment, "server");
    MPI_Info_create(&hints);
    MPI_Info_set(hints, "striping_factor", "3");
    MPI_Info_set(hints, "striping_unit", "8192");
    MPI_Info_set(hints, "start_iodevice", "2");
    MPI_Info_set(hints, "cb_nodes", "2");
    MPI_Info_set(hints, "of nobody", "1");
    for (size_t at = 0; at < sizeof ignored / sizeof *ignored; at++)
        MPI_Info_set(hints, ignored[at], "1");
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE, hints, &file));
    OK(MPI_File_get_info(file, &found));
    const char *expected[][2] = {{"striping_factor", "3"},
                                 {"striping_unit", "8192"},
                                 {"start_iodevice", "2"},
                                 {"cb_nodes", "2"},
                                 {"braid_collective", is_way ? "server" : "auto"}};
    for (int at = 0; at < 5; at++) {
        MPI_Info_get(found, expected[at][0], MPI_MAX_INFO_VAL, value, &flag);
        SAME(flag && !strcmp(value, expected[at][1]), 1);
    }
    MPI_Info_get(found, "of nobody", MPI_MAX_INFO_VAL, value, &flag);
    SAME(flag, 0);
    for (size_t at = 0; at < sizeof ignored / sizeof *ignored; at++) {
        MPI_Info_get(found, ignored[at], MPI_MAX_INFO_VAL, value, &flag);
        SAME(flag, 0);
    }
    MPI_Info_free(&found);
    MPI_Info_set(hints, "cb_nodes", "1");
    OK(MPI_File_set_info(file, hints));
    OK(MPI_File_get_info(file, &found));
    MPI_Info_get(found, "cb_nodes", MPI_MAX_INFO_VAL, value, &flag);
    SAME(flag && !strcmp(value, "1"), 1);
    MPI_Info_get(found, "braid_collective", MPI_MAX_INFO_VAL, value, &flag);
    SAME(flag && !strcmp(value, is_way ? "server" : "auto"), 1);
    MPI_Info_free(&found);
    /* A hint has precedence over the environment. */
    MPI_Info_set(hints, "braid_collective", "list");
    OK(MPI_File_set_info(file, hints));
    OK(MPI_File_get_info(file, &found));
    MPI_Info_get(found, "braid_collective", MPI_MAX_INFO_VAL, value, &flag);
    SAME(flag && !strcmp(value, "list"), 1);
    MPI_Info_free(&found);
    MPI_Info_free(&hints);
    OK(MPI_File_close(&file));
}

/* Hints that the cluster cannot follow: more daemons than it has, a stripe that is not whole
 * pages. */
static void unfulfilled(void) {
    MPI_Info hints, found;
    MPI_File file;
    char value[MPI_MAX_INFO_VAL + 1];
    int flag;
    MPI_Info_create(&hints);
    MPI_Info_set(hints, "striping_factor", "99");
    MPI_Info_set(hints, "striping_unit", "8192");
    for (int again = 0; again < 3; again++) {
        /* The last iteration uses an existing file. */
        if (again == 1) MPI_Info_set(hints, "striping_unit", "5000");
        OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE, hints, &file));
        OK(MPI_File_get_info(file, &found));
        MPI_Info_get(found, "striping_factor", MPI_MAX_INFO_VAL, value, &flag);
        SAME(flag && !strcmp(value, "4"), 1);
        MPI_Info_get(found, "striping_unit", MPI_MAX_INFO_VAL, value, &flag);
        SAME(flag && (again ? strcmp(value, "5000") : !strcmp(value, "8192")), 1);
        MPI_Info_free(&found);
        OK(MPI_File_close(&file));
        if (again == 0 && rank == 0) OK(MPI_File_delete(path, MPI_INFO_NULL));
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Info_free(&hints);
}

/* The forms that URLs of the same path have in other programs. */
static void urls(void) {
    static const char *const forms[] = {"braid:", "braid://", "braid:/", "braid:////"};
    char name[300];
    MPI_File file;
    int value = 7, found = 0;
    file = fresh();
    if (rank == 0) OK(MPI_File_write_at(file, 0, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&file));
    for (size_t at = 0; at < sizeof forms / sizeof *forms; at++) {
        /* The path starts with a slash: braid:/x, braid:///x, braid://x, braid://///x. */
        snprintf(name, sizeof name, "%s%s", forms[at], path + strlen("braid:"));
        OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
        OK(MPI_File_read_at(file, 0, &found, 1, MPI_INT, MPI_STATUS_IGNORE));
        SAME(found, 7);
        OK(MPI_File_close(&file));
    }
    snprintf(name, sizeof name, "braid://127.0.0.1:7700%s", path + strlen("braid:"));
    CLASS(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file),
          MPI_ERR_BAD_FILE);
    CLASS(MPI_File_delete(name, MPI_INFO_NULL), MPI_ERR_BAD_FILE);
}

static void make_with(const char *suffix, int mode, const char *permissions) {
    char name[300], value[MPI_MAX_INFO_VAL + 1];
    int flag;
    MPI_File file;
    MPI_Info hints, found;
    snprintf(name, sizeof name, "%s%s", path, suffix);
    MPI_Info_create(&hints);
    if (permissions) MPI_Info_set(hints, "file_perm", permissions);
    OK(MPI_File_open(MPI_COMM_WORLD, name, mode, hints, &file));
    OK(MPI_File_get_info(file, &found));
    MPI_Info_get(found, "file_perm", MPI_MAX_INFO_VAL, value, &flag);
    /* Returned where it had an effect. */
    int is_number = permissions && !strchr("9r", *permissions) && strlen(permissions) < 5;
    SAME(flag, mode & MPI_MODE_CREATE && is_number);
    if (flag) SAME(strcmp(value, permissions), 0);
    MPI_Info_free(&found);
    MPI_Info_free(&hints);
    OK(MPI_File_close(&file));
}

/* Files whose permissions the Rust test checks. */
static void permissions(void) {
    umask(027); /* before libbraid connects */
    int mode = MPI_MODE_RDWR | MPI_MODE_CREATE;
    make_with("-none", mode, NULL);
    make_with("-604", mode, "604");
    make_with("-0770", mode, "0770");
    make_with("-9", mode, "9");
    make_with("-rw", mode, "rw-rw-rw-");
    make_with("-01777", mode, "01777");
    /* It applies to a new file. */
    make_with("-604", mode, "777");
    make_with("-604", MPI_MODE_RDWR, "777");
}

/* Collective calls by the daemons: also a rank without bytes, or one that fails, takes part. */
static void together(void) {
    enum { PIECES = 100, EACH = 8, INTS = PIECES * EACH };
    int out[INTS], in[INTS];
    char value[MPI_MAX_INFO_VAL + 1];
    MPI_Datatype pieces, filetype;
    MPI_Info hints, found;
    MPI_Status status;
    MPI_File file;
    int flag;
    MPI_Info_create(&hints);
    MPI_Info_set(hints, "braid_collective", "server");
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE, hints, &file));
    OK(MPI_Type_vector(PIECES, EACH, EACH * size, MPI_INT, &pieces));
    OK(MPI_Type_create_resized(pieces, 0, PIECES * EACH * size * 4, &filetype));
    OK(MPI_Type_commit(&filetype));
    OK(MPI_File_set_view(file, rank * EACH * 4, MPI_INT, filetype, "native", MPI_INFO_NULL));
    for (int i = 0; i < INTS; i++) out[i] = rank * INTS + i;
    OK(MPI_File_write_all(file, out, INTS, MPI_INT, &status));
    SAME(ints(&status), INTS);
    /* One rank has no bytes, and reads past the end. */
    OK(MPI_File_read_at_all(file, 0, in, rank ? 0 : INTS, MPI_INT, &status));
    SAME(ints(&status), rank ? 0 : INTS);
    if (!rank) SAME(memcmp(in, out, sizeof in), 0);
    OK(MPI_File_read_at_all(file, rank ? INTS : INTS - 5, in, 10, MPI_INT, &status));
    SAME(ints(&status), rank ? 0 : 5);
    /* The memory, position or view of one rank is wrong: it gets its own error, and the other
     * rank is notified. */
    CLASS(MPI_File_read_at_all(file, 0, in, 1, rank ? MPI_DATATYPE_NULL : MPI_INT, &status),
          rank ? MPI_ERR_TYPE : MPI_ERR_ARG);
    CLASS(MPI_File_write_all(file, out, rank ? 1 : -1, MPI_INT, &status),
          rank ? MPI_ERR_ARG : MPI_ERR_COUNT);
    CLASS(MPI_File_write_at_all(file, rank ? 0 : -1, out, 1, MPI_INT, &status), MPI_ERR_ARG);
    CLASS(MPI_File_read_all_begin(file, in, rank ? 1 : -1, MPI_INT),
          rank ? MPI_ERR_ARG : MPI_ERR_COUNT);
    OK(MPI_File_read_at_all_begin(file, 0, in, INTS, MPI_INT));
    OK(MPI_File_read_at_all_end(file, in, &status));
    SAME(ints(&status), INTS);
    SAME(memcmp(in, out, sizeof in), 0);
    /* A failed call moves no pointer. */
    MPI_Offset at;
    OK(MPI_File_get_position(file, &at));
    SAME(at, INTS);
    MPI_Datatype nothing;
    OK(MPI_Type_contiguous(0, MPI_INT, &nothing));
    OK(MPI_Type_commit(&nothing));
    OK(MPI_File_set_view(file, 0, MPI_INT, rank ? MPI_INT : nothing, "native", MPI_INFO_NULL));
    CLASS(MPI_File_write_all(file, out, 1, MPI_INT, &status), MPI_ERR_ARG);
    OK(MPI_File_read_all(file, in, 1, MPI_INT, &status));
    SAME(ints(&status), rank);
    /* Where both write, the bytes of the highest rank win. */
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    OK(MPI_File_write_all(file, out, INTS, MPI_INT, &status));
    OK(MPI_File_read_at_all(file, 0, in, INTS, MPI_INT, &status));
    for (int i = 0; i < INTS; i++) SAME(in[i], INTS + i);
    /* In atomic mode each rank makes its own calls, also with a failure. */
    OK(MPI_File_set_atomicity(file, 1));
    if (rank) CLASS(MPI_File_write_at_all(file, -1, out, 1, MPI_INT, &status), MPI_ERR_ARG);
    else OK(MPI_File_write_at_all(file, 0, out, 1, MPI_INT, &status));
    OK(MPI_File_set_atomicity(file, 0));
    /* A hint that the ranks do not agree on, or that is unknown, is ignored. */
    MPI_Info_set(hints, "braid_collective", rank ? "list" : "auto");
    OK(MPI_File_set_info(file, hints));
    MPI_Info_set(hints, "braid_collective", "perhaps");
    OK(MPI_File_set_info(file, hints));
    OK(MPI_File_get_info(file, &found));
    MPI_Info_get(found, "braid_collective", MPI_MAX_INFO_VAL, value, &flag);
    SAME(flag && !strcmp(value, "server"), 1);
    MPI_Info_free(&found);
    MPI_Info_free(&hints);
    MPI_Type_free(&nothing);
    MPI_Type_free(&pieces);
    MPI_Type_free(&filetype);
    OK(MPI_File_close(&file));
}

static int handled;
static MPI_File handled_file;

static void handler(MPI_File *file, int *code, ...) {
    (void)code;
    handled++;
    handled_file = *file;
}

static void errors(void) {
    MPI_File file = fresh();
    MPI_Errhandler mine;
    OK(MPI_File_create_errhandler(handler, &mine));
    OK(MPI_File_set_errhandler(file, mine));
    CLASS(MPI_File_seek(file, -1, MPI_SEEK_SET), MPI_ERR_ARG);
    SAME(handled, 1);
    SAME(handled_file == file, 1);
    MPI_Request request;
    int value = 1;
    CLASS(MPI_File_iwrite_at(file, -1, &value, 1, MPI_INT, &request), MPI_ERR_ARG);
    SAME(handled, 2);
    SAME(MPI_File_c2f(file) == MPI_File_c2f(handled_file) &&
             MPI_File_f2c(MPI_File_c2f(file)) == file,
         1);
    OK(MPI_File_close(&file));
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, mine));
    char other[300];
    snprintf(other, sizeof other, "%s-none", path);
    CLASS(MPI_File_open(MPI_COMM_WORLD, other, MPI_MODE_RDONLY, MPI_INFO_NULL, &file),
          MPI_ERR_NO_SUCH_FILE);
    SAME(handled, 3);
    /* The failure of one rank in a collective call is a failure of all. */
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    file = fresh();
    CLASS(MPI_File_set_view(file, rank ? -5 : 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL),
          MPI_ERR_ARG);
    MPI_Errhandler_free(&mine);
    OK(MPI_File_close(&file));
}

static void external32(void) {
    MPI_File file = fresh();
    int out[3] = {0x01020304, -2, 7}, in[3];
    double real = 1.5, back;
    unsigned char bytes[12];
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "external32", MPI_INFO_NULL));
    if (rank == 0) OK(MPI_File_write_at(file, 0, out, 3, MPI_INT, MPI_STATUS_IGNORE));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_read_at(file, 0, in, 3, MPI_INT, MPI_STATUS_IGNORE));
    SAME(memcmp(in, out, sizeof in), 0);
    char representation[MPI_MAX_DATAREP_STRING];
    MPI_Offset displacement;
    MPI_Datatype etype, filetype;
    OK(MPI_File_get_view(file, &displacement, &etype, &filetype, representation));
    SAME(strcmp(representation, "external32"), 0);
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    OK(MPI_File_read_at(file, 0, bytes, 12, MPI_BYTE, MPI_STATUS_IGNORE));
    SAME(bytes[0] == 1 && bytes[3] == 4 && bytes[4] == 0xff && bytes[7] == 0xfe && bytes[11] == 7,
         1);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_set_view(file, 0, MPI_DOUBLE, MPI_DOUBLE, "external32", MPI_INFO_NULL));
    OK(MPI_File_write_at(file, rank, &real, 1, MPI_DOUBLE, MPI_STATUS_IGNORE));
    OK(MPI_File_read_at(file, rank, &back, 1, MPI_DOUBLE, MPI_STATUS_IGNORE));
    SAME(back == real, 1);
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "internal", MPI_INFO_NULL));
    OK(MPI_File_read_at(file, 0, bytes, 8, MPI_BYTE, MPI_STATUS_IGNORE));
    SAME(bytes[0] == 0x3f && bytes[1] == 0xf8 && bytes[7] == 0, 1);
    /* A type that has another size in external32. Open MPI differs from its own
     * MPI_Pack_external_size. */
    long longs[4] = {1, 2, 3, 4};
    MPI_Aint packed = 0;
    OK(MPI_Pack_external("external32", longs, 1, MPI_LONG, bytes, sizeof(long), &packed));
    if (packed != sizeof(long)) {
        MPI_Offset before, after;
        OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "external32", MPI_INFO_NULL));
        OK(MPI_File_get_size(file, &before));
        CLASS(MPI_File_write_at(file, 1000, longs, 4, MPI_LONG, MPI_STATUS_IGNORE),
              MPI_ERR_UNSUPPORTED_DATAREP);
        CLASS(MPI_File_write_at_all(file, 1000, longs, 4, MPI_LONG, MPI_STATUS_IGNORE),
              MPI_ERR_UNSUPPORTED_DATAREP);
        CLASS(MPI_File_read_at(file, 0, longs, 1, MPI_LONG, MPI_STATUS_IGNORE),
              MPI_ERR_UNSUPPORTED_DATAREP);
        OK(MPI_File_get_size(file, &after));
        SAME(after, before);
        SAME(longs[0] == 1 && longs[3] == 4, 1);
    }
    OK(MPI_File_close(&file));
}

static void sequence(void) {
    MPI_File file = opened(MPI_MODE_WRONLY | MPI_MODE_CREATE | MPI_MODE_SEQUENTIAL);
    int out[2] = {rank, rank}, in[2];
    CLASS(MPI_File_write_at(file, 0, out, 1, MPI_INT, MPI_STATUS_IGNORE),
          MPI_ERR_UNSUPPORTED_OPERATION);
    CLASS(MPI_File_write(file, out, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_UNSUPPORTED_OPERATION);
    CLASS(MPI_File_seek(file, 0, MPI_SEEK_SET), MPI_ERR_UNSUPPORTED_OPERATION);
    OK(MPI_File_write_ordered(file, out, 2, MPI_INT, MPI_STATUS_IGNORE));
    /* From here on, the view starts where the shared pointer is. */
    OK(MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native",
                         MPI_INFO_NULL));
    out[0] = out[1] = 10 + rank;
    OK(MPI_File_write_ordered(file, out, 2, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&file));
    file = opened(MPI_MODE_RDONLY);
    OK(MPI_File_read_at(file, 16 + rank * 8, in, 2, MPI_INT, MPI_STATUS_IGNORE));
    SAME(in[0] == 10 + rank && in[1] == 10 + rank, 1);
    OK(MPI_File_close(&file));
}

/* The MPI's own MPI-IO handles a local file, whose path is in BRAID_TEST_LOCAL. */
static void others(void) {
    MPI_File file;
    int value = 5 + rank, back;
    OK(MPI_File_open(MPI_COMM_WORLD, getenv("BRAID_TEST_LOCAL"), MPI_MODE_RDWR | MPI_MODE_CREATE,
                     MPI_INFO_NULL, &file));
    OK(MPI_File_set_view(file, rank * 4, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    OK(MPI_File_write_all(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_read_at(file, 0, &back, 1, MPI_INT, MPI_STATUS_IGNORE));
    SAME(back, value);
    OK(MPI_File_close(&file));
}

#if MPI_VERSION >= 4
static void large(void) {
    MPI_File file = fresh();
    int out[4] = {1, 2, 3, 4 + rank}, in[4];
    MPI_Status status;
    MPI_Request request;
    OK(MPI_File_write_at_c(file, rank * 16, out, (MPI_Count)4, MPI_INT, &status));
    SAME(ints(&status), 4);
    OK(MPI_File_iread_at_c(file, rank * 16, in, (MPI_Count)4, MPI_INT, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    SAME(memcmp(in, out, sizeof in), 0);
    OK(MPI_File_close(&file));
}

/* The same type by the constructors for both kinds of counts. */
static int constructed(int which, MPI_Datatype both[2]) {
    enum { N = 3 };
    static const int lengths[N] = {2, 1, 3}, starts[N] = {1, 4, 9}, sizes[N] = {4, 6, 8},
                     block[N] = {2, 3, 4}, first[N] = {1, 2, 3};
    static const int how[N] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_NONE},
                     grid[N] = {2, 2, 1};
    static const int arguments[N] = {MPI_DISTRIBUTE_DFLT_DARG, 2, MPI_DISTRIBUTE_DFLT_DARG};
    MPI_Aint bytes[N];
    MPI_Count large_lengths[N], large_starts[N], large_bytes[N], large_sizes[N], large_block[N],
        large_first[N];
    MPI_Datatype types[N] = {MPI_INT, MPI_SHORT, MPI_INT}, pair;
    for (int at = 0; at < N; at++) {
        large_lengths[at] = lengths[at];
        large_starts[at] = starts[at];
        large_bytes[at] = bytes[at] = 8 * starts[at];
        large_sizes[at] = sizes[at];
        large_block[at] = block[at];
        large_first[at] = first[at];
    }
    switch (which) {
    case 0:
        OK(MPI_Type_contiguous(5, MPI_INT, &both[0]));
        OK(MPI_Type_contiguous_c(5, MPI_INT, &both[1]));
        return 1;
    case 1:
        OK(MPI_Type_vector(3, 2, 7, MPI_INT, &both[0]));
        OK(MPI_Type_vector_c(3, 2, 7, MPI_INT, &both[1]));
        return 1;
    case 2:
        OK(MPI_Type_create_hvector(3, 2, 44, MPI_INT, &both[0]));
        OK(MPI_Type_create_hvector_c(3, 2, 44, MPI_INT, &both[1]));
        return 1;
    case 3:
        OK(MPI_Type_indexed(N, lengths, starts, MPI_INT, &both[0]));
        OK(MPI_Type_indexed_c(N, large_lengths, large_starts, MPI_INT, &both[1]));
        return 1;
    case 4:
        OK(MPI_Type_create_hindexed(N, lengths, bytes, MPI_INT, &both[0]));
        OK(MPI_Type_create_hindexed_c(N, large_lengths, large_bytes, MPI_INT, &both[1]));
        return 1;
    case 5:
        OK(MPI_Type_create_indexed_block(N, 2, starts, MPI_INT, &both[0]));
        OK(MPI_Type_create_indexed_block_c(N, 2, large_starts, MPI_INT, &both[1]));
        return 1;
    case 6:
        OK(MPI_Type_create_hindexed_block(N, 2, bytes, MPI_INT, &both[0]));
        OK(MPI_Type_create_hindexed_block_c(N, 2, large_bytes, MPI_INT, &both[1]));
        return 1;
    case 7:
        OK(MPI_Type_create_struct(N, lengths, bytes, types, &both[0]));
        OK(MPI_Type_create_struct_c(N, large_lengths, large_bytes, types, &both[1]));
        return 1;
    case 8:
        OK(MPI_Type_create_resized(MPI_INT, 0, 12, &both[0]));
        OK(MPI_Type_create_resized_c(MPI_INT, 0, 12, &both[1]));
        return 1;
    case 9:
        OK(MPI_Type_create_subarray(N, sizes, block, first, MPI_ORDER_C, MPI_SHORT, &both[0]));
        OK(MPI_Type_create_subarray_c(N, large_sizes, large_block, large_first, MPI_ORDER_C,
                                      MPI_SHORT, &both[1]));
        return 1;
    case 10:
        OK(MPI_Type_create_subarray(N, sizes, block, first, MPI_ORDER_FORTRAN, MPI_INT, &both[0]));
        OK(MPI_Type_create_subarray_c(N, large_sizes, large_block, large_first, MPI_ORDER_FORTRAN,
                                      MPI_INT, &both[1]));
        return 1;
    case 11:
        OK(MPI_Type_create_darray(4, 3, N, sizes, how, arguments, grid, MPI_ORDER_C, MPI_INT,
                                  &both[0]));
        OK(MPI_Type_create_darray_c(4, 3, N, large_sizes, how, arguments, grid, MPI_ORDER_C,
                                    MPI_INT, &both[1]));
        return 1;
    case 12: /* one inside the other, in both orders */
        OK(MPI_Type_vector_c(2, 1, 2, MPI_INT, &pair));
        OK(MPI_Type_create_hvector(3, 1, 40, pair, &both[0]));
        OK(MPI_Type_free(&pair));
        OK(MPI_Type_vector(2, 1, 2, MPI_INT, &pair));
        OK(MPI_Type_create_hvector_c(3, 1, 40, pair, &both[1]));
        OK(MPI_Type_free(&pair));
        return 1;
    default: return 0;
    }
}

/* As file type and as memory type. The world has the default error handler, which ends the job. */
static void large_types(void) {
    enum { ROOM = 4096 };
    MPI_File file = fresh();
    MPI_Datatype both[2], etype, shown;
    MPI_Offset displacement, base = rank * (1 << 20);
    char representation[MPI_MAX_DATAREP_STRING], in[ROOM], out[ROOM], packed[2][ROOM];
    for (size_t at = 0; at < ROOM; at++) out[at] = (char)(at * 7 + 3 * rank + 1);
    for (int which = 0; constructed(which, both); which++, base += 2 * ROOM) {
        int bytes;
        OK(MPI_Type_commit(&both[0]));
        OK(MPI_Type_commit(&both[1]));
        OK(MPI_Type_size(both[1], &bytes));
        for (int first = 0; first < 2; first++) {
            /* Two copies written with the one type, read with the other. */
            OK(MPI_File_set_view(file, base, MPI_BYTE, both[first], "native", MPI_INFO_NULL));
            OK(MPI_File_write_at_all(file, 0, out + first, 2 * bytes, MPI_BYTE, MPI_STATUS_IGNORE));
            OK(MPI_File_set_view(file, base, MPI_BYTE, both[1 - first], "native", MPI_INFO_NULL));
            OK(MPI_File_read_at_all(file, 0, in, 2 * bytes, MPI_BYTE, MPI_STATUS_IGNORE));
            SAME(memcmp(in, out + first, 2 * (size_t)bytes), 0);
        }
        OK(MPI_File_get_view(file, &displacement, &etype, &shown, representation));
        OK(MPI_Type_free(&shown));
        OK(MPI_File_set_view(file, base + ROOM, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
        for (int kind = 0; kind < 2; kind++) {
            OK(MPI_File_write_at_all(file, 0, out, 1, both[kind], MPI_STATUS_IGNORE));
            OK(MPI_File_read_at(file, 0, packed[kind], bytes, MPI_BYTE, MPI_STATUS_IGNORE));
        }
        SAME(memcmp(packed[0], packed[1], bytes), 0);
        OK(MPI_Type_free(&both[0]));
        OK(MPI_Type_free(&both[1]));
    }
    /* Every second byte, more often than an int can count: a formula, not a list. */
    MPI_Count many = 3000000000;
    OK(MPI_Type_vector_c(many, 1, 2, MPI_BYTE, &both[1]));
    OK(MPI_Type_commit(&both[1]));
    OK(MPI_File_set_view(file, rank, MPI_BYTE, both[1], "native", MPI_INFO_NULL));
    OK(MPI_File_write_at_all(file, many - 100, out, 100, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    OK(MPI_File_read_at(file, 2 * (many - 100), in, 200, MPI_BYTE, MPI_STATUS_IGNORE));
    for (int at = 0; at < 100; at++) SAME(in[2 * at + rank], out[at]);
    OK(MPI_Type_free(&both[1]));
    OK(MPI_File_close(&file));
}
#else
static void large(void) {}
static void large_types(void) {}
#endif

/* 60 small writes and reads of short pieces. The pieces of each rank start `apart` ints after those
 * of the one before: with fewer than 8, both write some bytes. `moved`: the view is set before each
 * call, and shows the bytes of the call at its start. */
static void short_calls(int apart, int moved) {
    enum { CALLS = 60, PIECES = 100, EACH = 8, INTS = PIECES * EACH };
    int out[INTS], in[INTS], other[INTS];
    MPI_Datatype pieces, filetype;
    MPI_Status status;
    MPI_File file;
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file));
    OK(MPI_Type_vector(PIECES, EACH, EACH * size, MPI_INT, &pieces));
    OK(MPI_Type_create_resized(pieces, 0, INTS * size * 4, &filetype));
    OK(MPI_Type_commit(&filetype));
    OK(MPI_File_set_view(file, rank * apart * 4, MPI_INT, filetype, "native", MPI_INFO_NULL));
    for (int call = 0; call < CALLS; call++) {
        MPI_Offset from = (MPI_Offset)call * INTS * size * 4 + rank * apart * 4,
                   at = moved ? 0 : call * INTS;
        if (moved) OK(MPI_File_set_view(file, from, MPI_INT, filetype, "native", MPI_INFO_NULL));
        for (int i = 0; i < INTS; i++) {
            out[i] = rank * INTS + i + call;
            other[i] = (rank + 1) * INTS + i + call;
        }
        OK(MPI_File_write_at_all(file, at, out, INTS, MPI_INT, &status));
        MPI_Barrier(MPI_COMM_WORLD);
        if (moved) OK(MPI_File_set_view(file, from, MPI_INT, filetype, "native", MPI_INFO_NULL));
        OK(MPI_File_read_at_all(file, at, in, INTS, MPI_INT, &status));
        SAME(ints(&status), INTS);
        /* Where the next rank writes too, its bytes are in the file. */
        for (int i = 0; i < INTS; i++) {
            int is_others = rank + 1 < size && i % EACH >= apart;
            SAME(in[i], is_others ? other[i - apart] : out[i]);
        }
    }
    OK(MPI_Type_free(&pieces));
    OK(MPI_Type_free(&filetype));
    OK(MPI_File_close(&file));
}

static void short_apart(void) { short_calls(8, 0); }
static void short_overlapping(void) { short_calls(4, 0); }
static void moved_apart(void) { short_calls(8, 1); }
static void moved_overlapping(void) { short_calls(4, 1); }

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {{"opening", opening},
                 {"sizes", sizes},
                 {"positions", positions},
                 {"twice", twice},
                 {"memory", memory},
                 {"precise", precise},
                 {"header_and_array", header_and_array},
                 {"nonblocking", nonblocking},
                 {"background", background},
                 {"split", split},
                 {"shared", shared},
                 {"views", views},
                 {"ordered", ordered},
                 {"atomic", atomic},
                 {"info", info},
                 {"errors", errors},
                 {"external32", external32},
                 {"sequence", sequence},
                 {"others", others},
                 {"large", large},
                 {"large_types", large_types},
                 {"together", together},
                 {"short_apart", short_apart},
                 {"short_overlapping", short_overlapping},
                 {"moved_apart", moved_apart},
                 {"moved_overlapping", moved_overlapping},
                 {"permissions", permissions},
                 {"unfulfilled", unfulfilled},
                 {"urls", urls}};
    begin(&argc, &argv);
    SAME(argc, 3);
    SAME(size, 2);
    path = argv[2];
    for (size_t at = 0; at < sizeof tests / sizeof *tests; at++) {
        if (strcmp(tests[at].name, argv[1])) continue;
        tests[at].run();
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) printf("%s ok\n", argv[1]);
    }
    MPI_Finalize();
    return 0;
}

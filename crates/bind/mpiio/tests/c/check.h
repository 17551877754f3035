/* Shared by the C tests. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

#define OK(call) ok(call, #call, __LINE__)
#define CLASS(call, class) of_class(call, class, #call, __LINE__)
#define SAME(a, b) same((long long)(a), (long long)(b), #a, __LINE__)

__attribute__((unused)) static void ok(int code, const char *call, int line) {
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(code, text, &length);
    fprintf(stderr, "rank %d line %d: %s: %s\n", rank, line, call, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

__attribute__((unused)) static void of_class(int code, int wanted, const char *call, int line) {
    int class;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    MPI_Error_class(code, &class);
    MPI_Error_string(code, text, &length);
    if (class == wanted && strstr(text, "braid")) return;
    fprintf(stderr, "rank %d line %d: %s: class %d and not %d: %s\n", rank, line, call, class,
            wanted, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

__attribute__((unused)) static void same(long long a, long long b, const char *what, int line) {
    if (a == b) return;
    fprintf(stderr, "rank %d line %d: %s is %lld and not %lld\n", rank, line, what, a, b);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

__attribute__((unused)) static uint64_t value_of(uint64_t index) {
    return (index + 1) * 0x9e3779b97f4a7c15ull ^ index >> 3;
}

__attribute__((unused)) static void begin(int *argc, char ***argv) {
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
}

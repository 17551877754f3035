/* Prints whether BraidFS handles a new file: only the shim returns `braid_collective`. */
#include "check.h"

int main(int argc, char **argv) {
    MPI_File file;
    MPI_Info told;
    char value[MPI_MAX_INFO_VAL + 1] = "";
    int is_told;
    begin(&argc, &argv);
    OK(MPI_File_open(MPI_COMM_WORLD, "taken", MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL,
                     &file));
    OK(MPI_File_get_info(file, &told));
    MPI_Info_get(told, "braid_collective", MPI_MAX_INFO_VAL, value, &is_told);
    MPI_Info_free(&told);
    OK(MPI_File_close(&file));
    if (rank == 0) printf(is_told ? " No Errors\n" : "the MPI's own MPI-IO has the file\n");
    MPI_Finalize();
    return !is_told;
}

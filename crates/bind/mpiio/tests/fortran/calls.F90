! MPI-IO from Fortran, with the binding in BINDING: 77 (mpif.h), 90 (use mpi), 8 (use mpi_f08).
! `calls braid:/path`, 2 ranks: each writes its numbers of a strided view and reads those of the
! other; rank 0 prints them.
program calls
#if BINDING == 8
   use mpi_f08
#elif BINDING == 90
   use mpi
#endif
   implicit none
#if BINDING == 77
   include 'mpif.h'
#endif
   integer, parameter :: numbers = 1000
#if BINDING == 8
   type(MPI_File) :: file
   type(MPI_Datatype) :: view
   type(MPI_Status) :: status
   type(MPI_Request) :: request
#else
   integer :: file, view, status(MPI_STATUS_SIZE), request
#endif
   integer :: code, rank, ranks, i, mine(numbers), other(numbers), found
   integer(kind=MPI_OFFSET_KIND) :: displacement, bytes, first
   character(len=256) :: name

   call MPI_Init(code)
   call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
   call MPI_Comm_size(MPI_COMM_WORLD, ranks, code)
   call get_command_argument(1, name)
   call MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR + MPI_MODE_CREATE, MPI_INFO_NULL, &
                      file, code)
   if (code /= MPI_SUCCESS) call MPI_Abort(MPI_COMM_WORLD, 1, code)
   call MPI_Type_vector(numbers, 1, ranks, MPI_INTEGER, view, code)
   call MPI_Type_commit(view, code)
   displacement = 4 * rank
   call MPI_File_set_view(file, displacement, MPI_INTEGER, view, 'native', MPI_INFO_NULL, code)
   if (code /= MPI_SUCCESS) call MPI_Abort(MPI_COMM_WORLD, 2, code)
   do i = 1, numbers
      mine(i) = rank * numbers + i
   end do
   call MPI_File_write_all(file, mine, numbers, MPI_INTEGER, status, code)
   call MPI_Get_count(status, MPI_INTEGER, found, code)
   if (found /= numbers) call MPI_Abort(MPI_COMM_WORLD, 3, code)
   call MPI_Barrier(MPI_COMM_WORLD, code)
   displacement = 4 * (1 - rank)
   call MPI_File_set_view(file, displacement, MPI_INTEGER, view, 'native', MPI_INFO_NULL, code)
   first = 0
   call MPI_File_iread_at(file, first, other, numbers, MPI_INTEGER, request, code)
   call MPI_Wait(request, status, code)
   do i = 1, numbers
      if (other(i) /= (1 - rank) * numbers + i) call MPI_Abort(MPI_COMM_WORLD, 4, code)
   end do
   call MPI_File_get_size(file, bytes, code)
   call MPI_File_close(file, code)
   call MPI_Type_free(view, code)
   if (rank == 0) print '(I0,A)', bytes, ' bytes'
   call MPI_Finalize(code)
end program calls

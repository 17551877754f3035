#!/bin/sh
# Builds libbraid_mpiio.so for the MPI of a compiler:
#   build.sh mpicc.openmpi PREFIX_OF_LIBBRAID OUTPUT_DIRECTORY
set -eu
mpicc=${1:?mpicc} prefix=${2:?prefix of libbraid} out=${3:?output directory}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
# The shim itself needs the MPI (DT_NEEDED): so it finds the MPI's symbols even if the program loads
# the MPI in a scope of its own (mpi4py).
"$mpicc" -std=gnu11 -O2 -g -fPIC -shared -Wall -Wextra -Werror -fvisibility=hidden -pthread \
    -I"$prefix/include" \
    -o "$out/libbraid_mpiio.so" -Wl,-soname,libbraid_mpiio.so -Wl,--no-as-needed \
    "$here"/shim/*.c -L"$prefix/lib" -lbraid -ldl

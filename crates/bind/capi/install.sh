#!/bin/sh
# Builds and installs the C library from the archive that cargo built:
#   cargo build --release -p braid-capi
#   crates/bind/capi/install.sh target/release/libbraid.a PREFIX
# PREFIX/lib: libbraid.so.0 with symbol versions, libbraid.a, pkgconfig/braid.pc;
# PREFIX/include/braid.h; PREFIX/share/man/man3.
# DESTDIR is prepended to PREFIX when files are written; CC is the compiler that links. The shared
# library has function names but no debug information, which would be most of it. DEBUG_INFO=1 keeps
# it, and the archive has it.
set -eu
archive=${1:?archive}
prefix=${2:?prefix}
here=$(cd "$(dirname "$0")" && pwd)
to=${DESTDIR:-}$prefix
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$here/../../../Cargo.toml" | head -n 1)
# System libraries that Rust's standard library needs.
private="-lgcc_s -lutil -lrt -lpthread -lm -ldl -lc"

strip=-Wl,--strip-debug
[ -z "${DEBUG_INFO:-}" ] || strip=

mkdir -p "$to/lib/pkgconfig" "$to/include" "$to/share/man/man3"
# Links the whole archive, then removes sections that no exported function needs.
${CC:-cc} -shared -o "$to/lib/libbraid.so.0" -Wl,-soname,libbraid.so.0 \
    -Wl,--version-script="$here/libbraid.map" -Wl,--gc-sections $strip -Wl,-z,relro,-z,now \
    -Wl,--whole-archive "$archive" -Wl,--no-whole-archive $private
ln -sf libbraid.so.0 "$to/lib/libbraid.so"
cp "$archive" "$to/lib/libbraid.a"
cp "$here/include/braid.h" "$to/include/"
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" -e "s|@PRIVATE@|$private|" \
    "$here/braid.pc.in" >"$to/lib/pkgconfig/braid.pc"
for page in "$here"/man/*.3; do
    cp "$page" "$to/share/man/man3/"
    # A page about several functions gets a link for the name of each.
    sed -n '/^\.SH NAME/,/^\.SH SYNOPSIS/p' "$page" | tr ', ' '\n\n' | grep '^braid_' | sort -u |
        while read -r name; do
            [ -e "$here/man/$name.3" ] ||
                printf '.so man3/%s\n' "$(basename "$page")" >"$to/share/man/man3/$name.3"
        done
done

# Runs one case in the guest, on an NFS mount or, to compare, on an ext4. Variables: case, subject,
# address, guest, port, export, options, layouts, checkout, pjdfstest, mount_test, operations.
# Exit status 0: passed.
mkdir -p /mnt/nfs

# The kernel's own options: no helper of mount(8) is needed.
mount_nfs() {
    mount -i -t nfs4 -o "addr=$address,clientaddr=$guest,port=$port,proto=tcp,sec=sys,$options" \
        "$address:$export" "$1"
}

# Bytes that do not repeat, so that a stripe in the wrong place shows.
pattern() {
    dd if=/dev/urandom of=/tmp/pattern bs=1M count=64 2>/dev/null
}

# Modules and their programs are in the initial file system, outside this root directory.
load() {
    chroot /proc/1/root /bin/modprobe -a "$@"
}

if [ "$subject" = ext4 ]; then
    load loop ext4
    truncate -s 512M /tmp/disk && mkfs.ext4 -q /tmp/disk
    mount -t ext4 "$(losetup --find --show /tmp/disk)" /mnt/nfs
else
    # The client asks for no layouts if it finds no driver for them.
    [ "$layouts" = on ] || echo /bin/false >/proc/sys/kernel/modprobe
    [ "$layouts" = off ] || load nfs_layout_nfsv41_files nfs_layout_flexfiles
    load nfsv4
    mount_nfs /mnt/nfs
fi || exit 1
mount | grep ' /mnt/nfs '
work=/mnt/nfs/guest-$case
rm -rf "$work"
status=0

case $case in
cthon-basic | cthon-general | cthon-special | cthon-lock)
    part=$(echo "${case#cthon-}" | cut -c1)
    cd "$checkout" && CC=cc sh ./runtests "-$part" -t "$work" || status=1
    cd /
    ;;
pjdfstest)
    mkdir -p "$work" && chmod 755 "$work"
    NO_COLOR=1 RUST_BACKTRACE=0 "$pjdfstest" -c /run/share/pjdfstest.toml -p "$work" -s /dev/shm
    ;;
fsx)
    mkdir -p "$work" && "$mount_test" fsx "$work" --ops "$operations" || status=1
    ;;
programs)
    mkdir -p "$work" && "$mount_test" programs "$work" || status=1
    ;;
pnfs)
    # 256 MiB, written and read back through an empty cache, in the kernel's largest requests.
    mkdir -p "$work" && pattern || status=1
    for part in 0 1 2 3; do
        dd if=/tmp/pattern of="$work/striped" bs=1M seek=$((part * 64)) conv=notrunc,fsync \
            2>/dev/null || status=1
    done
    [ "$(stat -c %s "$work/striped")" = 268435456 ] || { echo "wrong size"; status=1; }
    echo 3 >/proc/sys/vm/drop_caches
    for part in 0 1 2 3; do
        dd if="$work/striped" bs=1M skip=$((part * 64)) count=64 2>/dev/null |
            cmp - /tmp/pattern || status=1
    done
    ;;
*)
    echo "no case $case"
    exit 1
    ;;
esac

cat /proc/self/mountstats >/run/share/mountstats
rm -rf "$work"
umount /mnt/nfs || status=1
dmesg | grep -E 'BUG:|WARNING:|Oops|nfs: server|NFS: .*error' | tail -20
exit $status

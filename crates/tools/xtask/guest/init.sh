#!/bin/busybox sh
# The first process of the guest. The host's root directory, read-only, becomes the guest's; one
# directory of the host is shared for the script, its variables, its output and its exit status.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
exec </dev/null >/dev/console 2>&1
modprobe -a virtio_pci virtio_net 9pnet_virtio 9p
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=loose,ro host /host
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=none,access=any share /share
. /share/network
for directory in tmp mnt run var/tmp root; do mount -t tmpfs -o mode=1777 tmpfs "/host/$directory"; done
mount -t proc proc /host/proc
mount -t sysfs sys /host/sys
mount -t devtmpfs dev /host/dev
mkdir -p /host/dev/shm /host/dev/pts /host/run/share
mount -t tmpfs -o mode=1777 tmpfs /host/dev/shm
mount -t devpts pts /host/dev/pts
mount -o bind /share /host/run/share
chroot /host /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
    sh -c 'set -a; . /run/share/variables; set +a; cd /; . /run/share/script' \
    >/share/output 2>&1
echo $? >/share/status
sync
poweroff -f

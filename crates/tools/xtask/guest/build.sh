# Builds OUT/vmlinux and OUT/initramfs from the packages of the distribution, without installing
# them. Arguments: OUT, the name of the kernel's package, the file of /init, modules...
out=$1 package=$2 init=$3
shift 3
mkdir -p "$out/packages" "$out/unpacked"
cd "$out/packages"
rm -f ./*.deb
apt-get -q download "$package" busybox-static
for deb in *.deb; do dpkg-deb -x "$deb" ../unpacked; done
cd "$out"
# Newer distributions keep everything below /usr.
base=unpacked
[ -d unpacked/lib/modules ] || base=unpacked/usr
release=$(ls $base/lib/modules)
depmod -b $base "$release"

# An uncompressed kernel starts without unpacking itself inside the slow emulated processor.
image=unpacked/boot/vmlinuz-$release
LC_ALL=C grep -obUaP '\xfd7zXZ\x00' "$image" | cut -d: -f1 >offsets
while read -r offset; do
    # What follows the compressed kernel in the image is an error for xz.
    tail -c +$((offset + 1)) "$image" | xz -dc --single-stream >vmlinux 2>/dev/null || true
    [ "$(head -c 4 vmlinux | tail -c 3)" = ELF ] && break
done <offsets
[ "$(head -c 4 vmlinux | tail -c 3)" = ELF ] || { echo "no xz kernel in $image" >&2; exit 1; }

rm -rf root
mkdir -p root/bin root/proc root/sys root/dev root/host root/share "root/lib/modules/$release"
ln -s bin root/sbin
cp "$(find unpacked -path '*bin/busybox' -type f)" root/bin/busybox
cp "$init" root/init
chmod 755 root/init
for module; do
    modprobe -d $base -S "$release" --show-depends "$module" >depends
    sed -n 's/^insmod \([^ ]*\).*/\1/p' depends
done | sort -u | while read -r file; do
    install -D -m 644 "$file" "root/lib/modules/${file#*/lib/modules/}"
done
cp "$base/lib/modules/$release"/modules.builtin* "$base/lib/modules/$release/modules.order" \
    "root/lib/modules/$release/"
depmod -b root "$release"
(cd root && find . | cpio -o -H newc -R 0:0 --quiet) >initramfs
rm -rf unpacked root offsets depends

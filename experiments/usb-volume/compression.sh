#!/bin/sh
# Stores the kernel source of Debian's package linux-source-6.1 on volumes with lz4 and zstd:15, and with lz4 and then zstd:15
# in the background, and prints the space.
# The results of one run are in README.md. Needs apt-get, xz and qemu-img, 4 GiB of disk, and flashlab in the path.
set -eu
cd "$(mktemp -d)"
apt-get download -q linux-source-6.1
dpkg-deb --fsys-tarfile linux-source-6.1_*.deb | tar -x --wildcards --strip-components=3 './usr/src/*.tar.xz'
xz -d linux-source-6.1.tar.xz
truncate -s %1M linux-source-6.1.tar
size=$(stat -c %s linux-source-6.1.tar)
for compression in lz4 zstd:15; do
    for extent in 64KiB 256KiB; do
        rm -f volume.img
        flashlab volume format --compression "$compression" --extent-max "$extent" file:volume.img,size=3GiB >&2
        flashlab serve volume:volume.img --run 'qemu-img convert -n -f raw -O raw linux-source-6.1.tar $uri' >&2
        stored=$(flashlab volume show --json volume.img | sed -n 's/.*"stored_bytes": \([0-9]*\).*/\1/p')
        echo "$compression, extents of $extent: $size bytes take $stored"
    done
done
for extent in 64KiB 256KiB; do
    rm -f volume.img
    flashlab volume format --compression lz4 --background-compression zstd:15 --extent-max "$extent" \
        file:volume.img,size=3GiB >&2
    flashlab serve volume:volume.img --run 'qemu-img convert -n -f raw -O raw linux-source-6.1.tar $uri' >&2
    flashlab volume reconcile volume.img >&2
    stored=$(flashlab volume show --json volume.img | sed -n 's/.*"stored_bytes": \([0-9]*\).*/\1/p')
    echo "lz4, then zstd:15 in the background, extents of $extent: $size bytes take $stored"
done
rm -r "$PWD"

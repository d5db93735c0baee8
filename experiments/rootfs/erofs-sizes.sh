#!/usr/bin/env bash
# Compares sizes of SquashFS and EROFS images with those in docs/PERFORMANCE.md of erofs-utils (1.6, squashfs-tools 4.5.1),
# "Benchmark on multiple files", as ratios to SquashFS without compression.
#
#     experiments/rootfs/erofs-sizes.sh FOLDER [rootfs.tar.xz]
#
# The publication packs the root of Docker's Debian 11, an archive with the SHA-1 aee9b01a530078dbef8f08521bfcabe65b244955.
# Without such an archive, mmdebstrap makes a Debian 11 of the same packages, as the mirror has them today. FOLDER gets the
# root, erofs-utils and the images. Needs root, apt, mmdebstrap and squashfs-tools. Installs nothing.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
archive=${2:+$(realpath "$2")}
"$here/images.sh" "$1" erofs
cd "$1"
for program in mmdebstrap mksquashfs; do
    command -v "$program" >/dev/null || { echo "erofs-sizes.sh: missing program: $program" >&2; exit 2; }
done

# debuerreotype removes the lists and the cache of apt, as mmdebstrap does.
if [ ! -d bullseye ]; then
    [ -n "$archive" ] || mmdebstrap --variant=minbase bullseye "${archive:=$PWD/bullseye.tar}" "deb http://deb.debian.org/debian bullseye main"
    mkdir bullseye.new && tar -xf "$archive" -C bullseye.new --exclude='./dev/*'
    mv bullseye.new bullseye
fi
libraries=$PWD/erofs/usr/lib/x86_64-linux-gnu
mkdir -p sizes
# Prints the size of an image.
size() {
    local format=$1 to=sizes/$2.img
    shift 2
    if [ ! -e "$to" ]; then
        case $format in
        squashfs) mksquashfs bullseye "$to.new" -noappend -no-progress -no-xattrs -all-time 0 "$@" ;;
        erofs) "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" erofs/usr/bin/mkfs.erofs -T0 "$@" "$to.new" bullseye ;;
        esac >"$to.log" 2>&1 || { cat "$to.log" >&2; exit 1; }
        mv "$to.new" "$to"
    fi
    stat -c %s "$to"
}

mksquashfs -version | head -n 1
"$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" erofs/usr/bin/mkfs.erofs --version 2>&1 | head -n 1
base_published=124522496
base=$(size squashfs squashfs-uncompressed -noD -noI -noX -noF -no-duplicates)
printf '%-9s %-13s %11s %11s %12s %8s %8s\n' format cluster published here "published %" "here %" error
while read -r format cluster published options; do
    # shellcheck disable=SC2086
    here=$(size "$format" "$format-$cluster" $options)
    awk -v f="$format" -v c="$cluster" -v p="$published" -v h="$here" -v pb=$base_published -v hb="$base" 'BEGIN {
        pr = 100 * p / pb; hr = 100 * h / hb
        printf "%-9s %-13s %11d %11d %12.2f %8.2f %+7.1f%%\n", f, c, p, h, pr, hr, 100 * (hr / pr - 1)
    }'
done <<'PUBLISHED'
squashfs uncompressed 124522496 -noD -noI -noX -noF -no-duplicates
erofs uncompressed 124669952
squashfs 4096 73601024 -b 4096 -comp lz4 -Xhc
erofs 4096 73121792 -zlz4hc,12 -C4096 -Efragments
squashfs 16384 67162112 -b 16384 -comp lz4 -Xhc
erofs 16384 65478656 -zlz4hc,12 -C16384 -Efragments
squashfs 65536 61456384 -b 65536 -comp lz4 -Xhc
erofs 65536 59834368 -zlz4hc,12 -C65536 -Efragments
squashfs 131072 59150336 -b 131072 -comp lz4 -Xhc
erofs 131072 58515456 -zlz4hc,12 -C131072 -Efragments
PUBLISHED

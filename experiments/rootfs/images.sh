#!/usr/bin/env bash
# Builds the root and the images whose boots `run rootfs` replays, below the folder of the first argument; with `erofs` as
# the second argument, the folder erofs/ alone:
#   root/       Debian 12 with the packages of a small server, made by mmdebstrap
#   kernel/     Debian's full Linux 6.12 from backports, unpacked: it reads EROFS with LZMA
#   erofs/      Debian 13's erofs-utils beside its libraries, unpacked: Debian 12's ignores options of three images
#   images/     the images
# Installs nothing. Needs root, a Debian system with apt, and the packages mmdebstrap, squashfs-tools, e2fsprogs, xz-utils, zstd.
set -euo pipefail
mirror=http://deb.debian.org/debian
mkdir -p "$1" && cd "$1"
[ "$(id -u)" = 0 ] || { echo "images.sh: only root can make the device nodes and owners of a root" >&2; exit 2; }
needed=(mmdebstrap mksquashfs mke2fs apt-get dpkg-deb zstd)
[ "${2:-}" != erofs ] || needed=(apt-get dpkg-deb)
for program in "${needed[@]}"; do
    command -v "$program" >/dev/null || { echo "images.sh: missing program: $program" >&2; exit 2; }
done

# Sets `options` so that apt reads one suite and leaves the system's lists alone.
suite() {
    local folder=$PWD/lists/$1
    mkdir -p "$folder/partial"
    echo "deb $mirror $1 main" >"$folder.list"
    options=(-q -o Dir::Etc::sourcelist="$folder.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$folder"
        -o Dir::State::status=/dev/null -o APT::Sandbox::User=)
    apt-get "${options[@]}" update
}

# A fixed identity, and no work that systemd does at the first boot or after an update.
root() {
    mmdebstrap --variant=minbase --include=systemd,systemd-sysv,udev,dbus,openssh-server,python3,perl,vim \
        bookworm root.tar "deb $mirror bookworm main"
    mkdir root.new && tar -xf root.tar -C root.new --exclude='./dev/*' && rm root.tar
    echo 0123456789abcdef0123456789abcdef >root.new/etc/machine-id
    echo flashlab >root.new/etc/hostname
    : >root.new/etc/fstab
    touch root.new/etc/.updated root.new/var/.updated
    mv root.new root
}

# Unpacks the image beside the original: an emulated guest would spend much of its boot on it. The kernel's header contains
# the place of the payload (Documentation/arch/x86/boot.rst in Linux). zstd complains about the bytes behind it.
kernel() {
    local options package image
    suite bookworm-backports
    package=$(apt-cache "${options[@]}" depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-6[.]12[.].*\)/\1/p' | head -n 1)
    apt-get "${options[@]}" download "$package"
    dpkg-deb -x linux-image-*.deb kernel.new && rm linux-image-*.deb
    image=$(echo kernel.new/boot/vmlinuz-*)
    number() { od -An -v -t "u$2" -j "$1" -N "$2" "$image" | tr -d ' '; }
    tail -c "+$((($(number 0x1f1 1) + 1) * 512 + $(number 0x248 4) + 1))" "$image" |
        zstd -dcq >"${image/vmlinuz/vmlinux}" 2>/dev/null || true
    [ "$(head -c 4 "${image/vmlinuz/vmlinux}" | tail -c 3)" = ELF ] || rm "${image/vmlinuz/vmlinux}"
    mv kernel.new kernel
}

erofs() {
    local options package
    suite trixie
    mkdir erofs.new
    for package in erofs-utils libc6 libdeflate0 liblz4-1 liblzma5 libpcre2-8-0 libselinux1 libuuid1 libxxhash0 libzstd1 zlib1g; do
        apt-get "${options[@]}" download "$package"
    done
    for package in ./*.deb; do dpkg-deb -x "$package" erofs.new && rm "$package"; done
    mv erofs.new erofs
}

[ -d erofs ] || erofs
[ "${2:-}" != erofs ] || exit 0
[ -d root ] || root
[ -d kernel ] || kernel

# The compression hints of the image "multiple": small clusters of LZ4HC for programs and libraries, LZMA for the rest.
printf '4096 1 %s\n' '\.so' bin/ sbin/ >hints
echo '131072 2 etc/' >>hints
mkdir -p images
libraries=erofs/usr/lib/x86_64-linux-gnu
uuid=6ba7b810-9dad-11d1-80b4-00c04fd430c8
image() {
    local name=$1 format=$2 to=images/$1.img
    shift 2
    [ ! -e "$to" ] || return 0
    case $format in
    squashfs) mksquashfs root "$to.new" -noappend -no-progress -mkfs-time 1577836800 "$@" ;;
    erofs) $libraries/ld-linux-x86-64.so.2 --library-path $libraries erofs/usr/bin/mkfs.erofs -T1577836800 --mkfs-time -U$uuid "$@" "$to.new" root ;;
    ext4)
        truncate -s 448M "$to.new"
        mke2fs -q -F -t ext4 -d root -U $uuid -E hash_seed=$uuid,lazy_itable_init=0,lazy_journal_init=0 "$to.new"
        ;;
    esac >"images/$name.log" 2>&1 || { cat "images/$name.log" >&2; exit 1; }
    mv "$to.new" "$to"
    echo "$to: $(stat -c %s "$to") bytes"
}
image ext4 ext4
image squashfs-uncompressed squashfs -noD -noI -noX -noF
image squashfs-gzip squashfs
image squashfs-lz4hc squashfs -comp lz4 -Xhc
image squashfs-xz squashfs -comp xz
image squashfs-lzo squashfs -comp lzo
image squashfs-zstd squashfs -comp zstd
image erofs-uncompressed erofs
image erofs-lz4hc erofs -zlz4hc,12
image erofs-lzma erofs -zlzma
image erofs-large-clusters erofs -zlz4hc -C65536
image erofs-multiple erofs -zlzma:lz4hc,12:lzma,109 -C131072 --compress-hints=hints
image erofs-well-compressed erofs -C1048576 -Eztailpacking -Eall-fragments -Ededupe -zlz4hc,12
grep "of uncompressed filesystem size" images/squashfs-uncompressed.log

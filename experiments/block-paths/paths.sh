# Measures one path to a block device after another: attaches the device, and runs fio on xfs over it.
#
# `flashlab run block-paths` runs this script, on this machine or as a part of a guest's first process, with the variables
#   FLASHLAB        the program
#   WORK            an empty folder on tmpfs
#   PLAN            a file with a line per row: KEY PATH SOCKETS JOBS DEPTH HOW; HOW is device or in-process
#   DEVICE          MiB of each device
#   SIZE            MiB of each job's files
#   RUNTIME         seconds of a measurement
#   OPTIONS         options of fio in all rows
# It reads the lines of the output that begin with PATHS:
#   PATHS result KEY ATTACHED JSON    with the JSON of fio or of flashlab load
#   PATHS missing KEY WHY

key=

missing() {
    echo "PATHS missing $key $*"
    false
}

have() {
    for tool in "$@"; do
        command -v "$tool" >/dev/null 2>&1 || { missing "$tool is not installed"; return 1; }
    done
}

# Repeats a command until it succeeds, for up to ten seconds.
await() {
    tries=0
    until "$@" >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ $tries -lt 200 ] || { missing "$* failed for ten seconds"; return 1; }
        sleep 0.05
    done
}

module() {
    [ -d "/sys/module/$1" ] || modprobe "$1" 2>/dev/null || [ -d "/sys/module/$1" ]
}

backing() {
    rm -f "$WORK/backing"
    truncate -s "${DEVICE}M" "$WORK/backing"
}

attach_loop() {
    have losetup || return
    backing
    disk=$(losetup -f --show "$WORK/backing" 2>&1) || { missing "no loop device: $disk"; return 1; }
    attached="loop-over-tmpfs"
}

detach_loop() {
    losetup -d "$disk"
}

lio=/sys/kernel/config/target
fabric=$lio/loopback/naa.5001405f1a541ab0

# $1: the backstore's folder, $2: the settings for its control file
attach_lio() {
    module target_core_mod && module tcm_loop || { missing "no LIO (target_core_mod, tcm_loop) in this kernel"; return 1; }
    mount -t configfs none /sys/kernel/config 2>/dev/null
    store=$lio/core/$1
    mkdir -p "$store" || { missing "no backstore ${1%%_*}"; return 1; }
    echo "$2" > "$store/control" && echo 1 > "$store/enable" || { missing "LIO does not take $2"; return 1; }
    mkdir -p "$fabric/tpgt_1/lun/lun_0" && echo naa.5001405f1a541ab1 > "$fabric/tpgt_1/nexus"
    ln -s "$store" "$fabric/tpgt_1/lun/lun_0/port"
    await lio_disk || return
    disk=/dev/$(lio_disk)
    attached="tcm_loop"
}

lio_disk() {
    for vendor in /sys/block/sd*/device/vendor; do
        case $(cat "$vendor" 2>/dev/null) in LIO-ORG*) name=${vendor#/sys/block/}; echo "${name%%/*}"; return 0 ;; esac
    done
    false
}

detach_lio() {
    rm "$fabric/tpgt_1/lun/lun_0/port"
    rmdir "$fabric/tpgt_1/lun/lun_0" "$fabric/tpgt_1" "$fabric" "$store"
}

# Starts the server $1 of a device in memory, on a Unix socket.
start_server() {
    socket=$WORK/socket
    rm -f "$socket"
    case $1 in
    ours)
        "$FLASHLAB" serve "memory:size=${DEVICE}MiB" --unix "$socket" &
        ;;
    nbdkit)
        have nbdkit || return
        nbdkit -f -U "$socket" memory "${DEVICE}M" &
        ;;
    qemu-storage-daemon)
        have qemu-storage-daemon || return
        backing
        qemu-storage-daemon --blockdev "driver=file,node-name=n,filename=$WORK/backing" \
            --nbd-server "addr.type=unix,addr.path=$socket,max-connections=0" \
            --export type=nbd,id=e,node-name=n,name=,writable=on &
        ;;
    esac
    server=$!
    uri="nbd+unix:///?socket=$socket"
    await test -S "$socket" || { stop_server; false; }
}

stop_server() {
    kill "$server"
    wait "$server" 2>/dev/null
    rm -f "$WORK/backing"
}

attach_nbd() {
    start_server "$1" || return
    attach_kernel || attach_fuse || { stop_server; false; }
}

attach_kernel() {
    module nbd && command -v nbd-client >/dev/null 2>&1 || return
    disk=/dev/nbd0
    nbd-client -unix "$socket" -C "$sockets" -b 4096 -N '' $disk >/dev/null 2>&1 || return
    attached="kernel-client"
}

attach_fuse() {
    have nbdfuse losetup fusermount3 || return
    [ -e /dev/fuse ] || { missing "neither the kernel's nbd module nor /dev/fuse"; return 1; }
    mkdir -p "$WORK/fuse"
    nbdfuse -C "$sockets" "$WORK/fuse/disk" "$uri" &
    fuse=$!
    await test -s "$WORK/fuse/disk" || return
    # Direct I/O, because the page cache would keep most requests from the server.
    if disk=$(losetup -f --show --direct-io=on "$WORK/fuse/disk" 2>&1); then
        attached="nbdfuse+loop"
    else
        fusermount3 -u "$WORK/fuse"
        missing "no loop device: $disk"
    fi
}

detach_nbd() {
    case $attached in
    kernel-client) nbd-client -d $disk >/dev/null ;;
    *) losetup -d "$disk"; fusermount3 -u "$WORK/fuse"; wait $fuse ;;
    esac
    stop_server
}

measure_files() {
    have mkfs.xfs fio || return
    mkdir -p "$WORK/on"
    told=$(mkfs.xfs -q -f "$disk" 2>&1) || { missing "mkfs.xfs: $told"; return 1; }
    told=$(mount -t xfs "$disk" "$WORK/on" 2>&1) || { missing "mount: $told"; return 1; }
    # shellcheck disable=SC2086 # the options are words
    if fio --name=paths --directory="$WORK/on" --size="${SIZE}m" --numjobs="$jobs" --iodepth="$depth" \
        --runtime="$RUNTIME" $OPTIONS --output-format=json --output="$WORK/json" >/dev/null 2>"$WORK/error"; then
        echo "PATHS result $key $attached $(tr -d '\n' < "$WORK/json")"
    else
        missing "fio: $(head -n 1 "$WORK/error")"
    fi
    umount "$WORK/on"
}

measure_in_process() {
    start_server "$path" || return
    if "$FLASHLAB" load "$uri" --rw=write --bs=1m >/dev/null &&
        "$FLASHLAB" load "$uri" --rw=randrw --bs=4k --iodepth="$depth" --connections="$sockets" \
            --runtime="$RUNTIME" --output-format=json > "$WORK/json"; then
        echo "PATHS result $key in-process $(tr -d '\n' < "$WORK/json")"
    else
        missing "flashlab load failed"
    fi
    stop_server
}

# A signal, or the end of the reader, detaches the device.
detach=
trap 'umount "$WORK/on"; $detach; rm -rf "$WORK"; exit 130' INT TERM HUP PIPE

while read -r key path sockets jobs depth how <&3; do
    case $how:$path in
    in-process:*) measure_in_process ;;
    *:loop) attach_loop && detach=detach_loop ;;
    *:lio-file)
        backing
        attach_lio fileio_0/file "fd_dev_name=$WORK/backing,fd_dev_size=$((DEVICE * 1048576))" && detach=detach_lio
        ;;
    *:lio-ramdisk) attach_lio rd_mcp_0/ram "rd_pages=$((DEVICE * 256))" && detach=detach_lio ;;
    *) attach_nbd "$path" && detach=detach_nbd ;;
    esac
    if [ -n "$detach" ]; then
        measure_files
        $detach
        detach=
    fi
    rm -f "$WORK/backing"
done 3< "$PLAN"
echo "PATHS done"

#!/bin/bash
# Records one workload on one filesystem under Debian's kernel in QEMU: writes the guest's trace, which
# `flashlab_recording::capture` turns into a recording. See recordings-record.md.
#
# Usage: record-guest.sh FOLDER FILESYSTEM WORKLOAD LATENCY_NS OUT
#   FOLDER      holds the kernel and the guest's root between calls (about 1 GB)
#   FILESYSTEM  ext4, f2fs, vfat or exfat
#   WORKLOAD    logger, sqlite, sqlite-wal, unpack, fio-random or fio-sequential
#   LATENCY_NS  latency of each request of the recording device
# Needs on Debian 12: qemu-system-x86 busybox-static cpio kmod xz-utils fio sqlite3 e2fsprogs f2fs-tools exfatprogs dosfstools
set -euo pipefail
[ $# = 5 ] || { sed -n '5,10s/^# //p' "$0" >&2; exit 2; }
mkdir -p "$1"; folder=$(cd "$1" && pwd); filesystem=$2 workload=$3 latency=$4; out=$(realpath "$5")

# Downloads the full kernel of the backports with a private list of sources, and unpacks it without installing it.
fetch_kernel() {
    local options package
    mkdir -p "$folder/lists/partial"
    echo "deb http://deb.debian.org/debian bookworm-backports main" >"$folder/sources.list"
    options=(-q -o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=/dev/null
        -o Dir::State::lists="$folder/lists")
    apt-get "${options[@]}" update
    package=$(apt-cache "${options[@]}" search --names-only '^linux-image-6\.12\..*-amd64$' | awk '{print $1}' |
        grep -v -e cloud -e '-rt-' | sort -V | tail -n 1)
    [ -n "$package" ] || { echo "record-guest: no kernel 6.12 in bookworm-backports" >&2; exit 1; }
    (cd "$folder" && apt-get "${options[@]}" download "$package")
    dpkg-deb -x "$folder"/linux-image-*.deb "$folder/kernel"
    depmod -b "$folder/kernel" "$(ls "$folder/kernel/lib/modules")"
}

# Copies a program and its libraries.
bring() {
    local program; program=$(command -v "$1") || { echo "record-guest: $1 is not installed" >&2; exit 1; }
    cp "$(readlink -f "$program")" "$root/tools/$1"
    ldd "$program" | grep -o '/[^ ]*' | while read -r library; do (cd "$root" && cp --parents -L "$library" .); done
}

# Unpacks a module after the modules that it needs.
add_module() {
    local modules line file name
    modules=$(echo "$folder"/kernel/lib/modules/*)
    line=$(grep -E "/$1\.ko(\.xz)?:" "$modules/modules.dep") || return 0 # Built into the kernel.
    for file in $(echo "${line#*:}" | tr ' ' '\n' | tac) "${line%%:*}"; do
        name=$(basename "$file" .ko.xz)
        [ -e "$root/modules/$name.ko" ] && continue
        xz -dc "$modules/$file" >"$root/modules/$name.ko"
        echo "$name" >>"$root/modules/order"
    done
}

build_root() {
    root=$folder/root; rm -rf "$root"; mkdir -p "$root"/{bin,tools,modules,proc,sys,dev,mnt,tmp}
    cp /bin/busybox "$root/bin/"
    for tool in fio sqlite3 mkfs.ext4 mkfs.f2fs mkfs.exfat mkfs.vfat; do bring $tool; done
    for module in null_blk crc32_generic crc32c_generic ext4 f2fs vfat nls_cp437 nls_ascii exfat; do add_module $module; done
    write_init >"$root/init"; chmod +x "$root/init"
    (cd "$root" && find . | LC_ALL=C sort | cpio -o -H newc --quiet | gzip -1) >"$folder/initramfs.partial"
    mv "$folder/initramfs.partial" "$folder/initramfs.gz"
}

write_init() {
    cat <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/tools:/bin
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev; mount -t tmpfs none /tmp
mount -t tracefs none /sys/kernel/tracing
while read m; do case $m in null_blk) o=nr_devices=0;; *) o=;; esac; insmod /modules/$m.ko $o; done </modules/order
mount -t configfs none /sys/kernel/config
fail() { echo "record-guest: $*"; poweroff -f; }
argument() { sed -n "s/.*\b$1=\([^ ]*\).*/\1/p" /proc/cmdline; }
F=$(argument rec_filesystem) W=$(argument rec_workload)
# A disk in memory with a volatile cache: each request completes by a timer, so tasks sleep and are woken.
D=/sys/kernel/config/nullb/nullb0; mkdir $D
echo 512 >$D/size; echo 512 >$D/blocksize; echo 1 >$D/memory_backed; echo 1 >$D/submit_queues; echo 1 >$D/cache_size
echo 2 >$D/irqmode; argument rec_latency >$D/completion_nsec; echo 1 >$D/power
U=6ba7b810-9dad-11d1-80b4-00c04fd430c8
case $F in
ext4) mkfs.ext4 -q -F -U $U -E hash_seed=$U /dev/nullb0;;
vfat) mkfs.vfat -i 12345678 /dev/nullb0 >/dev/null;;
f2fs) mkfs.f2fs -q -f /dev/nullb0;;
exfat) mkfs.exfat -q /dev/nullb0;;
*) fail "unknown filesystem $F";;
esac || fail "mkfs failed"
mount -t $F /dev/nullb0 /mnt || fail "mount failed"
T=/sys/kernel/tracing; echo 0 >$T/tracing_on; echo 200000 >$T/buffer_size_kb; echo x86-tsc >$T/trace_clock
for e in block/block_getrq block/block_rq_complete block/block_rq_issue block/block_rq_requeue \
    sched/sched_process_exit sched/sched_switch sched/sched_wakeup_new sched/sched_waking \
    syscalls/sys_enter_fdatasync syscalls/sys_enter_fsync syscalls/sys_enter_msync syscalls/sys_enter_sync \
    syscalls/sys_enter_syncfs syscalls/sys_exit_fdatasync syscalls/sys_exit_fsync syscalls/sys_exit_msync \
    syscalls/sys_exit_sync syscalls/sys_exit_syncfs timer/hrtimer_expire_exit timer/timer_expire_entry \
    timer/timer_expire_exit timer/timer_start workqueue/workqueue_execute_start workqueue/workqueue_queue_work; do
    echo 1 >$T/events/$e/enable
done
sync; sleep 1; cd /mnt
mark() { echo flashlab:$1 >$T/trace_marker; }
insert() {
    echo "pragma journal_mode=$1; pragma synchronous=full; create table t(a integer primary key, b text);"
    i=0; while [ $i -lt 200 ]; do echo "insert into t(b) values('$(printf %0200d $i)');"; i=$((i+1)); done
}
case $W in sqlite) insert delete >/tmp/sql;; sqlite-wal) insert wal >/tmp/sql;; esac
echo >$T/trace; echo 1 >$T/tracing_on; mark run-begins
case $W in
logger) # Appends 200 bytes and syncs, once a second.
    i=0; while [ $i -lt 20 ]; do
        mark op-begins; dd if=/dev/zero of=log bs=200 count=1 oflag=append conv=notrunc,fsync 2>/dev/null; mark op-ends
        sleep 1; i=$((i+1)); done;;
sqlite|sqlite-wal) sqlite3 db </tmp/sql >/dev/null || fail "sqlite3 failed";;
unpack) # Each file is written under another name, synced and renamed, as dpkg does.
    i=0; while [ $i -lt 60 ]; do
        dd if=/dev/zero of=f$i.dpkg-new bs=9k count=1 conv=fsync 2>/dev/null; mv f$i.dpkg-new f$i; i=$((i+1)); done; sync;;
fio-random) fio --name=r --rw=randwrite --bs=4k --size=16m --io_size=2m --fdatasync=1 --ioengine=sync --randseed=1 \
    --directory=/mnt --output=/dev/null || fail "fio failed";;
fio-sequential) fio --name=s --rw=write --bs=64k --size=32m --end_fsync=1 --ioengine=sync --directory=/mnt \
    --output=/dev/null || fail "fio failed";;
*) fail "unknown workload $W";;
esac
mark run-ends; echo 0 >$T/tracing_on
cat $T/trace >$(ls /dev/vport* | head -n 1) && sync && echo "record-guest: done"
poweroff -f
INIT
}

[ -d "$folder/kernel/boot" ] || fetch_kernel
[ -e "$folder/initramfs.gz" ] && [ "$folder/initramfs.gz" -nt "$0" ] || build_root
timeout 580 qemu-system-x86_64 -M pc -nodefaults -m 1536 -display none -serial stdio -no-reboot -net none -icount shift=0,sleep=off \
    -accel tcg,thread=single -rtc base=2020-01-01,clock=vm -seed 1 -kernel "$folder"/kernel/boot/vmlinuz-* \
    -initrd "$folder/initramfs.gz" -device virtio-serial-pci,ioeventfd=off -chardev "file,id=trace,path=$out" \
    -device virtserialport,chardev=trace,name=trace \
    -append "console=ttyS0 quiet nokaslr no_hash_pointers tsc=reliable panic=-1 rec_filesystem=$filesystem rec_workload=$workload rec_latency=$latency" \
    >"$out.console" 2>&1 </dev/null || true
grep -q "record-guest: done" "$out.console" || { echo "record-guest: the guest failed; its console:" >&2; cat "$out.console" >&2; exit 1; }
rm "$out.console"

#!/bin/busybox sh
# First process of the guest: makes the disk and the filesystem, and runs the workload under the kernel's trace.
# /plan.sh sets the variables in capitals, and /workload.sh defines `run` and perhaps `prepare`.
/bin/busybox --install -s /bin
export PATH=/tools:/bin HOME=/tmp
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev; mount -t tmpfs none /tmp
mount -t tracefs none /sys/kernel/tracing
say() { echo "flashlab: $*"; }
fail() { say "FAILED: $*"; poweroff -f; }
mark() { echo flashlab:$1 >/sys/kernel/tracing/trace_marker; }
. /plan.sh

say stage: loading modules
while read m; do
    case $m in null_blk) o=nr_devices=0;; *) o=;; esac
    insmod /modules/$m.ko $o || fail "the module $m cannot be loaded"
done </modules/order
mount -t configfs none /sys/kernel/config

# A disk in memory: each request completes by a timer, so tasks sleep and are woken.
say stage: making the filesystem
D=/sys/kernel/config/nullb/nullb0; mkdir $D || fail "no null_blk device"
put() { echo $2 >$D/$1 || fail "null_blk takes no $1=$2"; }
put size $DISK_MIB; put blocksize 512; put memory_backed 1; put submit_queues 1; put max_sectors $SECTORS_MAX
put discard $DISCARD; put cache_size $CACHE_MIB; put irqmode 2; put completion_nsec $LATENCY_NS
put power 1
Q=/sys/block/nullb0/queue
echo $((SECTORS_MAX / 2)) >$Q/max_sectors_kb || fail "no requests of $((SECTORS_MAX / 2)) KiB"
echo $SCHEDULER >$Q/scheduler || fail "no scheduler $SCHEDULER"
say scheduler: $(sed 's/.*\[\(.*\)\].*/\1/' $Q/scheduler)
if [ $FILESYSTEM != none ]; then
    eval "$MKFS" >/tmp/mkfs.txt 2>&1 || { cat /tmp/mkfs.txt; fail "mkfs failed"; }
    eval "mount -t $FILESYSTEM $MOUNT /dev/nullb0 /mnt" || fail "mount failed"
fi

T=/sys/kernel/tracing
echo 0 >$T/tracing_on; echo $TRACE_KIB >$T/buffer_size_kb; echo x86-tsc >$T/trace_clock
while read e; do echo 1 >$T/events/$e/enable || fail "the kernel has no event $e"; done </events
. /workload.sh
cd /mnt
say stage: preparing the workload
! type prepare >/dev/null 2>&1 || prepare || fail "the preparation ended with status $?"
sync; sleep 1; sync; echo 3 >/proc/sys/vm/drop_caches; sleep 1
say dirty limits: $(sed -n 's/nr_dirty.*threshold //p' /proc/vmstat | sort -n)
echo >$T/trace

say stage: running the workload
echo 1 >$T/tracing_on; mark run-begins
run || fail "the workload ended with status $?"
mark run-ends
cd /; [ $FILESYSTEM = none ] || umount /mnt || fail "the workload still uses the filesystem after its end"
echo 0 >$T/tracing_on
say stage: writing the trace
cat $T/trace >$(ls /dev/vport* | head -n 1) && sync && say done
poweroff -f

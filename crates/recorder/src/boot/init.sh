#!/bin/busybox sh
# First process of the guest: copies the image to the disk, mounts it, and lets its systemd boot under the kernel's trace.
# /plan.sh sets the variables in capitals. /added contains the files that the guest adds to the root.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev
mount -t tracefs none /sys/kernel/tracing
say() { echo "flashlab: $*"; }
fail() { say "FAILED: $*"; poweroff -f; }
. /plan.sh

say stage: loading modules
while read m; do
    case $m in null_blk) o=nr_devices=0;; *) o=;; esac
    insmod /modules/$m.ko $o || fail "the module $m cannot be loaded"
done </modules/order
mount -t configfs none /sys/kernel/config

say stage: copying the image
D=/sys/kernel/config/nullb/nullb0; mkdir $D || fail "no null_blk device"
put() { echo $2 >$D/$1 || fail "null_blk takes no $1=$2"; }
put size $DISK_MIB; put blocksize 512; put memory_backed 1; put submit_queues 1; put max_sectors $SECTORS_MAX
put discard $DISCARD; put cache_size $CACHE_MIB; put irqmode 2; put completion_nsec $LATENCY_NS
put power 1
Q=/sys/block/nullb0/queue
echo $((SECTORS_MAX / 2)) >$Q/max_sectors_kb || fail "no requests of $((SECTORS_MAX / 2)) KiB"
echo $SCHEDULER >$Q/scheduler || fail "no scheduler $SCHEDULER"
say scheduler: $(sed 's/.*\[\(.*\)\].*/\1/' $Q/scheduler)
dd if=/image of=/dev/nullb0 bs=1M 2>/tmp/dd.txt || { cat /tmp/dd.txt; fail "the image cannot be copied"; }
rm /image

# The added files lie in the upper layer, so the image is the one that its tool made. A writable root has them in itself.
mkdir -p /lower /rw /base
mount -t tmpfs none /rw || fail "no tmpfs"
mkdir /rw/upper /rw/work
case $WRITABLE in
1) mount -t $FILESYSTEM /dev/nullb0 /base && cp -a /added/. /base && umount /base || fail "the root cannot be written";;
*) cp -a /added/. /rw/upper;;
esac
T=/sys/kernel/tracing
echo 0 >$T/tracing_on; echo $TRACE_KIB >$T/buffer_size_kb; echo x86-tsc >$T/trace_clock
while read e; do echo 1 >$T/events/$e/enable || fail "the kernel has no event $e"; done </events
sync; echo 3 >/proc/sys/vm/drop_caches; sleep 1
echo >$T/trace

say stage: booting the root
echo 1 >$T/tracing_on; echo flashlab:run-begins >$T/trace_marker
case $WRITABLE in
1) mount -t $FILESYSTEM /dev/nullb0 /base || fail "mount failed";;
*) mount -t $FILESYSTEM -o ro /dev/nullb0 /lower || fail "mount failed"
    mount -t overlay overlay -o lowerdir=/lower,upperdir=/rw/upper,workdir=/rw/work /base || fail "no overlay";;
esac
[ -x /base/sbin/init ] || [ -L /base/sbin/init ] || fail "the image has no /sbin/init"
umount /sys/kernel/tracing /sys/kernel/config /sys /proc
exec switch_root /base /sbin/init

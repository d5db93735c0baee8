#!/bin/busybox sh
# First process of the guest: makes the disk and the filesystem, and runs the workload under the kernel's trace.
# /workload.sh defines `run` and perhaps `prepare`.
. /guest.sh
export PATH=/tools:/bin HOME=/tmp
mount -t tmpfs none /tmp
load_modules

say stage: making the filesystem
make_disk
if [ $FILESYSTEM != none ]; then
    eval "$MKFS" >/tmp/mkfs.txt 2>&1 || { cat /tmp/mkfs.txt; fail "mkfs failed"; }
    eval "mount -t $FILESYSTEM $MOUNT /dev/nullb0 /mnt" || fail "mount failed"
fi

prepare_trace
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

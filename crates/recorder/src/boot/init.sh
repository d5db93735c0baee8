#!/bin/busybox sh
# First process of the guest: copies the image to the disk, mounts it, and lets its init boot under the kernel's trace.
# /added contains the files that the guest adds to the root.
. /guest.sh
export PATH=/bin
load_modules

say stage: copying the image
make_disk
dd if=/image of=/dev/nullb0 bs=1M 2>/tmp/dd.txt || { cat /tmp/dd.txt; fail "the image cannot be copied"; }
rm /image

# The added files lie in the upper layer, so the image stays unmodified. A writable root itself contains the added files.
mkdir -p /lower /rw /base
mount -t tmpfs none /rw || fail "no tmpfs"
mkdir /rw/upper /rw/work
case $WRITABLE in
1) mount -t $FILESYSTEM /dev/nullb0 /base && cp -a /added/. /base && umount /base || fail "the root cannot be written";;
*) cp -a /added/. /rw/upper;;
esac
prepare_trace
sync; echo 3 >/proc/sys/vm/drop_caches; sleep 1
echo >$T/trace

say stage: booting the root
echo 1 >$T/tracing_on; mark run-begins
case $WRITABLE in
1) mount -t $FILESYSTEM /dev/nullb0 /base || fail "mount failed";;
*) mount -t $FILESYSTEM -o ro /dev/nullb0 /lower || fail "mount failed"
    mount -t overlay overlay -o lowerdir=/lower,upperdir=/rw/upper,workdir=/rw/work /base || fail "no overlay";;
esac
[ -x /base/sbin/init ] || [ -L /base/sbin/init ] || fail "the image has no /sbin/init"
umount $T /sys/kernel/config /sys /proc
exec switch_root /base /sbin/init

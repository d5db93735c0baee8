#!/bin/busybox sh
# First process of the guest. The kernel's command line sets the variables in capitals:
# PORT of the server, FS (ext4 or xfs), FORMAT=1 for a new filesystem, ROUND to begin with, EXPECT with the names of the files
# whose contents are durable, and LAST=1 to shut down cleanly after the checks.
/bin/busybox --install -s /bin
export PATH=/bin
# Tools have a path, because the shell prefers its own programs of the same name.
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev; mount -t tmpfs none /tmp
# Modules depend on one another; several rounds load them in a valid order.
for round in 1 2 3 4 5; do for module in /modules/*.ko; do insmod $module 2>/dev/null; done; done
say() { echo "GUEST $*"; }
fault() { say "FAULT $*"; cat /tmp/log; dmesg | tail -n 20; poweroff -f; }

ip link set lo up; ip link set eth0 up; ip addr add 10.0.2.15/24 dev eth0
disk=/dev/nbd0
/tools/nbd-client -C 2 -b 4096 -N volume 10.0.2.2 $PORT $disk >/tmp/log 2>&1 || fault the volume cannot be attached
if [ "$FORMAT" = 1 ]; then
    case $FS in
        ext4) /tools/mke2fs -q -t ext4 -F -J size=8 $disk </dev/null ;;
        xfs) /tools/mkfs.xfs -q -f $disk ;;
    esac >/tmp/log 2>&1 || fault the filesystem cannot be made
fi

write() { /tools/fio --name=$1 --filename=/on/$1 --ioengine=psync --verify=crc32c --verify_interval=4k --do_verify=0 \
    --size=512k --minimal $2 $3 $4 $5 $6 >/tmp/log.$1 2>&1; }
verify() { /tools/fio --name=$1 --filename=/on/$1 --ioengine=psync --verify=crc32c --verify_interval=4k --rw=read --bs=16k \
    --size=512k --minimal >/tmp/log 2>&1; }

# The mount replays the journal. Then all durable files are there, and the filesystem has no error.
mount -t $FS $disk /on >/tmp/log 2>&1 || fault the filesystem cannot be mounted
for name in $EXPECT; do
    verify $name || fault fio finds wrong data in $name
    case $name in slot) ;; *) say HOLDS $name $(md5sum </on/$name) ;; esac
done
umount /on || fault the filesystem cannot be unmounted
case $FS in
    ext4) /tools/e2fsck -f -n $disk ;;
    xfs) /tools/xfs_repair -n $disk ;;
esac >/tmp/log 2>&1 || fault the filesystem has errors
mount -t $FS $disk /on || fault the clean filesystem cannot be mounted
say CHECKED
if [ "$LAST" = 1 ]; then umount /on && /tools/nbd-client -d $disk && say DONE; poweroff -f; fi

# Blocks of `slot` are overwritten in place all the time. New files are durable when fio has ended.
case " $EXPECT " in
    *" slot "*) ;;
    *)
        rm -f /on/slot
        write slot --rw=write --bs=64k --end_fsync=1 || fault the file slot cannot be written
        say SYNCED slot
        ;;
esac
while :; do
    write slot --rw=randwrite --bs=4k --direct=1 --fsync=8 --randseed=$ROUND &
    mkdir -p /on/d$ROUND; for n in 1 2 3 4 5 6 7 8; do echo $n >/on/d$ROUND/$n; done; rm -rf /on/d$((ROUND - 2))
    if [ $ROUND -gt 8 ]; then say REMOVES r$((ROUND - 8)); rm -f /on/r$((ROUND - 8)); fi
    rm -f /on/r$ROUND
    write r$ROUND --rw=randwrite --bs=16k --end_fsync=1 --randseed=$ROUND || fault fio cannot write
    say SYNCED r$ROUND $(md5sum </on/r$ROUND)
    wait $! || fault fio cannot overwrite
    ROUND=$((ROUND + 1))
done

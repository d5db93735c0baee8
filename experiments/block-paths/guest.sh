# Runs paths.sh in a QEMU guest on Debian's kernel, in software emulation: `flashlab run block-paths --guest`.
#
# This script passes the variables of paths.sh on, and needs further ones:
#   KERNEL, MODULES the kernel's file, and the folder of its modules
#   SCRIPTS         the folder of this script
#   WORK            an empty folder
# The guest's memory holds its root filesystem and the devices.

set -e
for tool in qemu-system-x86_64 busybox fio mkfs.xfs losetup; do
    command -v $tool >/dev/null || { echo "PATHS failed $tool is not installed"; exit 1; }
done
root=$WORK/root
mkdir -p "$root/bin" "$root/tools" "$root/modules" "$root/proc" "$root/sys" "$root/dev" "$root/scratch" "$root/tmp" "$root/etc"
cp "$(command -v busybox)" "$root/bin/busybox"

# Copies a program and its libraries into the root.
bring() {
    cp "$1" "$root/tools/$2"
    for library in $(ldd "$1" 2>/dev/null | grep -o '/[^ ]*'); do
        [ -e "$root$library" ] || (cd "$root" && cp --parents "$library" .)
    done
}
bring "$FLASHLAB" flashlab
# Debugging symbols would only take memory.
strip "$root/tools/flashlab" 2>/dev/null || true
for tool in fio mkfs.xfs losetup nbd-client nbdkit qemu-storage-daemon; do
    if path=$(command -v $tool); then bring "$path" $tool; fi
done
plugins=$(nbdkit --dump-config 2>/dev/null | sed -n 's/^plugindir=//p')
if [ -f "$plugins/nbdkit-memory-plugin.so" ]; then
    (cd "$root" && cp --parents "$plugins/nbdkit-memory-plugin.so" .)
fi
for module in configfs target_core_mod target_core_file scsi_common scsi_mod sd_mod tcm_loop loop nbd libcrc32c xfs; do
    find "$MODULES" -name $module.ko -exec cp {} "$root/modules" \;
done
cp "$SCRIPTS/paths.sh" "$root/paths.sh"
cp "$PLAN" "$root/plan"
echo 'root:x:0:0:root:/:/bin/sh' > "$root/etc/passwd"
cat > "$root/init" <<END
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/tools:/bin
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev
mkdir /dev/shm; mount -t tmpfs -o size=90% none /scratch; mount -t tmpfs none /tmp; mount -t tmpfs none /dev/shm
ip link set lo up
# Several rounds load the modules in the order of their dependencies.
for round in 1 2 3 4 5; do for module in /modules/*.ko; do insmod \$module 2>/dev/null; done; done
echo "PATHS machine \$(uname -sr), \$(nproc) emulated processors"
export FLASHLAB=/tools/flashlab WORK=/scratch PLAN=/plan DEVICE=$DEVICE SIZE=$SIZE RUNTIME=$RUNTIME OPTIONS="$OPTIONS"
# The losetup of util-linux replaces that of busybox.
losetup() { /tools/losetup "\$@"; }
. /paths.sh 2> /scratch/said
poweroff -f
END
chmod +x "$root/init"
(cd "$root" && find . | busybox cpio -o -H newc 2>/dev/null | gzip -1 > "$WORK/initrd")
# no_timer_check: on a busy machine, an emulated timer can fail the kernel's test of timers.
exec timeout "$LIMIT" qemu-system-x86_64 -accel tcg,thread=multi -smp 2 -m "$MEMORY" -nodefaults -no-reboot -display none \
    -serial stdio -kernel "$KERNEL" -initrd "$WORK/initrd" \
    -append 'console=ttyS0 panic=-1 quiet no_timer_check loglevel=3' < /dev/null

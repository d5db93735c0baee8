#!/bin/sh
# Makes the files of rescue-stick-pc.toml in FOLDER: the kernel, an initrd that mounts the root image with an overlay, and a
# small root filesystem.
#
#     sh rescue-stick-pc.sh FOLDER [KERNEL MODULES]
#
# Needs busybox-static. KERNEL and MODULES are those of the running Debian kernel unless given,
# for example boot/vmlinuz-6.1.0-38-amd64 and lib/modules/6.1.0-38-amd64 of an unpacked package. Root is not needed.
set -e
folder=${1:?the folder is missing}
kernel=${2:-/boot/vmlinuz-$(uname -r)}
modules=${3:-/lib/modules/$(uname -r)}

# Modules, in the order of their dependencies: the USB host, the stick, the filesystems of both layers.
drivers="usb-common usbcore ehci-hcd ehci-pci scsi_common scsi_mod crct10dif_common crc-t10dif crc64 crc64-rocksoft t10-pi
    sd_mod usb-storage crc16 crc32c_generic mbcache jbd2 ext4 loop squashfs overlay"

mkdir -p "$folder"
cp "$kernel" "$folder/vmlinuz"

initrd=$folder/initrd
rm -rf "$initrd"
mkdir -p "$initrd/bin" "$initrd/modules" "$initrd/proc" "$initrd/sys" "$initrd/dev"
cp "$(command -v busybox)" "$initrd/bin/busybox"
for driver in $drivers; do
    # A driver that is part of the kernel has no file.
    find "$modules" -name "$driver.ko" -exec cp {} "$initrd/modules" \;
    find "$modules" -name "$driver.ko.xz" -exec sh -c 'xz -dc "$1" > "$2"' sh {} "$initrd/modules/$driver.ko" \;
done
cat > "$initrd/init" <<END
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev
for driver in $(echo $drivers); do test -e /modules/\$driver.ko && insmod /modules/\$driver.ko; done
echo "initrd: waiting for the stick"
until test -b /dev/sda2; do sleep 1; done
mkdir /stick /image /new
mount -t ext4 /dev/sda2 /stick
mount -t squashfs -o ro,loop /stick/squashfs.img /image
# The image is read-only; all changes go to w on the stick.
mkdir -p /stick/w/upper /stick/w/work
mount -t overlay -o lowerdir=/image,upperdir=/stick/w/upper,workdir=/stick/w/work overlay /new
mount --move /dev /new/dev
umount /proc /sys
exec switch_root /new /sbin/init
END
chmod +x "$initrd/init"
(cd "$initrd" && find . | sort | busybox cpio -o -H newc 2>/dev/null | gzip -1n) > "$folder/initrd.img"
rm -r "$initrd"

root=$folder/root
rm -rf "$root"
mkdir -p "$root/bin" "$root/sbin" "$root/etc" "$root/proc" "$root/sys" "$root/dev" "$root/tmp"
cp "$(command -v busybox)" "$root/bin/busybox"
for applet in sh cat ls mount umount mkdir sync poweroff reboot dmesg df vi setsid cttyhack; do
    ln -s busybox "$root/bin/$applet"
done
echo rescue > "$root/etc/hostname"
cat > "$root/sbin/init" <<'END'
#!/bin/sh
export PATH=/bin:/sbin PS1='rescue# '
mount -t proc none /proc; mount -t sysfs none /sys
echo "This is the rescue system. The root filesystem is:"
mount | cat - | while read -r line; do case $line in overlay*) echo "$line";; esac; done
cd /
setsid cttyhack sh
sync
poweroff -f
END
chmod +x "$root/sbin/init"

#!/bin/sh
# Boots Debian's kernel in QEMU with a virtual SD card in its slot, and gives a shell on it.
#
#     sh docs/debian-on-our-card.sh sd/kingston [--quirk busy=300ms ...]
#
# Needs Debian or a relative of it, with qemu-system-x86 and busybox-static installed, and flashlab in PATH (or FLASHLAB set).
# The kernel is downloaded once and unpacked, not installed. Root is not needed.
set -e
card=${1:?the card is missing, for example sd/kingston}
shift
flashlab=${FLASHLAB:-flashlab}
folder=${XDG_CACHE_HOME:-$HOME/.cache}/flashlab-guest
mkdir -p "$folder"
cd "$folder"

if ! ls boot/vmlinuz-* >/dev/null 2>&1; then
    kernel=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
    apt-get download "$kernel"
    dpkg-deb -x linux-image-*.deb .
    rm linux-image-*.deb
fi

# Modules, in the order of their dependencies.
modules="usb-common usbcore xhci-hcd xhci-pci mmc_core mmc_block vub300 fat vfat nls_cp437 nls_ascii"
rm -rf root
mkdir -p root/bin root/proc root/sys root/dev root/modules root/mnt
cp "$(command -v busybox)" root/bin
for module in $modules; do find lib/modules -name "$module.ko" -exec cp {} root/modules \; ; done
cat > root/init <<END
#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev
dmesg -n 4
# The kernel logs every command: dmesg | grep mmc0
for module in $modules; do insmod /modules/\$module.ko \$(test \$module = mmc_core && echo dyndbg=+p); done
for wait in \$(seq 40); do test -b /dev/mmcblk0 && break; sleep 1; done
dmesg | grep -E 'mmc0: new|mmcblk0'
for register in type cid csd scr ocr name serial date; do
    echo "\$register: \$(cat /sys/block/mmcblk0/device/\$register)"
done
echo "4 MiB read at:"; dd if=/dev/mmcblk0 of=/dev/null bs=1M count=4 iflag=direct
echo "4 MiB written at:"; dd if=/dev/zero of=/dev/mmcblk0 bs=1M count=4 oflag=direct
echo "The card is /dev/mmcblk0; poweroff ends all. For example: mkdosfs /dev/mmcblk0; mount /dev/mmcblk0 /mnt"
alias poweroff='/bin/poweroff -f'
ENV=/etc/profile setsid cttyhack sh
poweroff -f
END
chmod +x root/init
(cd root && find . | busybox cpio -o -H newc 2>/dev/null | gzip -1) > initrd
kernel=$(ls boot/vmlinuz-* | tail -n 1)

exec "$flashlab" serve "$card" "$@" --usbredir - --run "
    qemu-system-x86_64 -accel tcg -m 512 -nodefaults -no-reboot -display none -serial mon:stdio \
        -kernel $kernel -initrd initrd -append 'console=ttyS0 panic=-1 quiet no_timer_check' \
        -chardev socket,path=\$unixsocket,id=card -device qemu-xhci -device usb-redir,chardev=card"

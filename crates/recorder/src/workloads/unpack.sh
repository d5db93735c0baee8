# A package manager: three packages of 30 files. As dpkg does it, each file is written under another name and synced, then
# all are renamed, and the status file is replaced.
prepare() {
    dd if=/dev/urandom of=/tmp/data bs=1k count=128 2>/dev/null
    dd if=/dev/urandom of=status bs=1k count=200 2>/dev/null
}
run() {
    for p in 0 1 2; do
        mkdir p$p
        i=0
        for k in 1 2 3 5 8 13 21 34 55 89 1 2 3 5 8 13 21 34 1 2 3 5 8 13 1 2 3 5 8 100; do
            dd if=/tmp/data of=p$p/f$i.dpkg-new bs=${k}k count=1 conv=fsync 2>/dev/null || return 1
            i=$((i+1))
        done
        i=0; while [ $i -lt 30 ]; do mv p$p/f$i.dpkg-new p$p/f$i; i=$((i+1)); done
        dd if=status of=status-new bs=200k count=1 conv=fsync 2>/dev/null || return 1
        mv status-new status
    done
    sync
}

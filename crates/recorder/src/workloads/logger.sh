# A logger: appends 200 bytes and syncs, once a second for 20 s.
prepare() { dd if=/dev/zero of=/tmp/line bs=200 count=1 2>/dev/null; }
run() {
    i=0
    while [ $i -lt 20 ]; do
        mark op-begins
        dd if=/tmp/line of=log bs=200 count=1 oflag=append conv=notrunc,fsync 2>/dev/null || return 1
        mark op-ends
        sleep 1
        i=$((i+1))
    done
}

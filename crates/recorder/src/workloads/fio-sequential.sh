# fio: buffered sequential writes of 64 KiB, 64 MiB in all, with one fsync at the end.
run() {
    fio --name=s --rw=write --bs=64k --size=64m --end_fsync=1 --fallocate=none --ioengine=sync --filename=/mnt/s \
        --output=/tmp/fio.txt || { cat /tmp/fio.txt; return 1; }
}

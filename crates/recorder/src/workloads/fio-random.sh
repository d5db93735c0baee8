# fio: buffered random writes of 4 KiB within 16 MiB, each with fdatasync.
JOB="--name=r --rw=randwrite --bs=4k --size=16m --ioengine=sync --randseed=1 --filename=/mnt/r --output=/tmp/fio.txt"
prepare() { fio $JOB --create_only=1; }
run() { fio $JOB --io_size=2m --fdatasync=1 || { cat /tmp/fio.txt; return 1; }; }

# Beginning of each guest's first process: the filesystems of the kernel, the messages to the recorder, the modules, the
# disk and the trace. /plan.sh sets the variables in capitals.
/bin/busybox --install -s /bin
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev
mount -t tracefs none /sys/kernel/tracing
T=/sys/kernel/tracing
say() { echo "flashlab: $*"; }
fail() { say "FAILED: $*"; poweroff -f; }
mark() { echo flashlab:$1 >$T/trace_marker; }
. /plan.sh

load_modules() {
    say stage: loading modules
    while read m; do
        case $m in null_blk) o=nr_devices=0;; *) o=;; esac
        insmod /modules/$m.ko $o || fail "the module $m cannot be loaded"
    done </modules/order
    mount -t configfs none /sys/kernel/config
}

# Makes a disk in memory: each request completes by a timer, so tasks sleep and are woken. The scheduler has room for as
# many requests as that of an SD card, whatever the queue depth of the disk.
make_disk() {
    D=/sys/kernel/config/nullb/nullb0; mkdir $D || fail "no null_blk device"
    put() { echo $2 >$D/$1 || fail "null_blk takes no $1=$2"; }
    put size $DISK_MIB; put blocksize 512; put memory_backed 1; put submit_queues 1; put max_sectors $SECTORS_MAX
    put discard $DISCARD; put cache_size $CACHE_MIB; put irqmode 2; put completion_nsec $LATENCY_NS
    put hw_queue_depth $QUEUE_DEPTH; put mbps $BANDWIDTH_MIB
    put power 1
    Q=/sys/block/nullb0/queue
    echo $((SECTORS_MAX / 2)) >$Q/max_sectors_kb || fail "no requests of $((SECTORS_MAX / 2)) KiB"
    echo $SCHEDULER >$Q/scheduler || fail "no scheduler $SCHEDULER"
    say scheduler: $(sed 's/.*\[\(.*\)\].*/\1/' $Q/scheduler)
    case $SCHEDULER in none) ;; *) echo 128 >$Q/nr_requests || fail "no queue of 128 requests";; esac
}

# Selects the events and leaves the trace off.
prepare_trace() {
    echo 0 >$T/tracing_on; echo $TRACE_KIB >$T/buffer_size_kb; echo x86-tsc >$T/trace_clock
    while read e; do echo 1 >$T/events/$e/enable || fail "the kernel has no event $e"; done </events
}

#!/flashlab/busybox sh
# Ends the recording and writes the trace. systemd runs this script at multi-user.target, and any other init executes it
# as its last step.
B=/flashlab/busybox; T=/flashlab/tracing
[ -c /dev/console ] || $B mount -t devtmpfs none /dev
exec >/dev/console 2>&1
$B mkdir -p $T; $B mount -t tracefs none $T
echo flashlab:run-ends >$T/trace_marker
echo 0 >$T/tracing_on
# systemd makes this folder early (sd_booted(3)).
if [ -d /run/systemd/system ]; then
    for unit in multi-user.target flashlab-programs.service; do
        systemctl is-active --quiet $unit || { echo "flashlab: FAILED: $unit did not start"; $B poweroff -f; }
    done
fi
echo "flashlab: stage: writing the trace"
$B cat $T/trace >$($B ls /dev/vport* | $B head -n 1) && $B sync && echo "flashlab: done"
$B poweroff -f

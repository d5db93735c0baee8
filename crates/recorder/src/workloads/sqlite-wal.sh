# SQLite with a write-ahead log: 200 inserts of 200 bytes. Each is a transaction and an operation that the user waits for.
prepare() {
    echo "pragma journal_mode=wal; create table t(a integer primary key, b text);" | sqlite3 db >/dev/null
    echo "pragma journal_mode=wal; pragma synchronous=full;" >/tmp/sql
    i=0; while [ $i -lt 200 ]; do insert $i; i=$((i+1)); done >>/tmp/sql
}
insert() {
    printf '.once /sys/kernel/tracing/trace_marker\n.print flashlab:op-begins\n'
    printf "insert into t(b) values('%0200d');\n" $1
    printf '.once /sys/kernel/tracing/trace_marker\n.print flashlab:op-ends\n'
}
run() { sqlite3 db </tmp/sql >/dev/null; }

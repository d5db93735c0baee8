#!/bin/sh
# Records the iologs of commands.txt, the counts of distributions and the turns of mixes with the fio in the
# PATH. The files in this folder come from fio 3.33.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
grep -v '^#' "$here/commands.txt" | while IFS='|' read -r name bytes options; do
    name=$(echo $name); bytes=$(echo $bytes)
    if [ "$bytes" = - ]; then
        target="--ioengine=null"
    else
        rm -f file; truncate -s "$bytes" file
        target="--ioengine=psync --direct=1 --filename=file"
    fi
    # shellcheck disable=SC2086
    fio --name=j $target --write_iolog="$here/$name.log" $options >/dev/null
done
count() { # name, blocks, options
    options="--size=$(($2 * 4))k --io_size=400m --random_distribution=$3"
    # shellcheck disable=SC2086
    fio --name=j --ioengine=null --rw=randread --bs=4k --norandommap --write_iolog=log $options >/dev/null
    { echo "$options"
      awk -v n="$2" '$3 == "read" { seen[$4 / 4096]++ }
          END { for (block = 0; block < n; block++) printf "%d%s", seen[block], block % 20 == 19 ? "\n" : " "; print "" }' log
    } >"$here/$1.counts"
    rm log
}
count zipf-1.1 1000 zipf:1.1
count zipf-1.1-of-1024 1024 zipf:1.1
count zipf-0.8 1000 zipf:0.8
count pareto-0.2 1000 pareto:0.2
count pareto-0.2-of-1024 1024 pareto:0.2
count normal-10 1000 normal:10
count normal-40 1000 normal:40
count zoned 1000 zoned:60/10:30/20:10/70
count zoned-abs 1000 zoned_abs:60/400k:30/800k:10/2800k
count random 1000 random
turns() { # name, options
    # shellcheck disable=SC2086
    fio --name=j --ioengine=null --bs=4k --write_iolog=log $2 >/dev/null
    { echo "$2"
      awk 'BEGIN { turn = "read" }
          $3 == "read" || $3 == "write" {
              if ($3 != turn) { printf "%d%s", run, ++n % 20 ? " " : "\n"; turn = $3; run = 0 }
              run++
          }
          END { print run }' log
    } >"$here/$1.turns"
    rm log
}
turns mixed-97 "--rw=randrw --rwmixread=97 --size=20m --randseed=5"
turns mixed-4 "--rw=randrw --rwmixread=4 --size=8m --randseed=11"
turns mixed-97-loops "--rw=randrw --rwmixread=97 --size=8m --loops=3 --randrepeat=0 --randseed=5"

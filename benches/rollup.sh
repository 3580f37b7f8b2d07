#!/usr/bin/env bash
# Roll-ups as files, on 1 GB of each kind of log: how large they are, how long they take, what `clients` and `traffic` take of them and of the
# log; and the log in eight parts by time, put together again, which must give the same requests. Prints the figures, medians of five runs in
# turns; fails if a roll-up has more than 2 % of its log. Needs 3 GB of disk. rollup.sh [repeat|fleet]...
set -euo pipefail
# What is timed is reading: nothing is answered from the cache of roll-ups.
export PLIMSOLL_CACHE_FROM=1000TB
cd "$(dirname "$0")/.."
python=target/venv/bin/python
plimsoll=target/release/plimsoll
top=target/bench
mkdir -p "$top"
[ "$#" -gt 0 ] || set -- repeat fleet
code=0

# took NAME COMMAND...: runs it; appends seconds and peak RSS to NAME's figures.
took() {
    local name=$1
    shift
    /usr/bin/time -q -o "$top/time.txt" -f '%e %M' "$@" >"$top/out.txt"
    cat "$top/time.txt" >>"$top/took-$name.txt"
}

median() {
    sort -n "$top/took-$1.txt" | awk '{ s[NR] = $1; if ($2 > m) m = $2 } END { printf "%.2f s, %d MB", s[int((NR + 1) / 2)], m * 1024 / 1e6 }'
}

echo "| log | roll-up, of the log | \`rollup\` | \`clients\` of the log | of the roll-up | \`traffic\` of the log | of the roll-up | eight parts become one |"
echo "| --- | --: | --: | --: | --: | --: | --: | --: |"
for mode in "$@"; do
    log=$top/$mode.log
    if [ ! -s "$log" ] || [ benches/make_logs.py -nt "$log" ]; then
        $python benches/make_logs.py "$mode" --size 1GB "$log.part"
        mv "$log.part" "$log"
    fi
    rm -rf "$top"/took-*.txt "$top"/parts-"$mode" "$top/$mode".rolled*
    for run in 1 2 3 4 5; do
        rm -rf "$top/$mode.rolled"
        took rollup $plimsoll rollup "$log" --to "$top/$mode.rolled"
        for of in log rolled; do
            took "clients-$of" $plimsoll clients "$top/$mode.$of" -o json
            took "traffic-$of" $plimsoll traffic "$top/$mode.$of" -o json
        done
    done
    bytes=$(cat "$top/$mode.rolled"/* | wc -c)
    size=$(stat -c %s "$log")
    mkdir "$top/parts-$mode"
    split -n l/8 -d --additional-suffix=.log "$log" "$top/parts-$mode/part-"
    for part in "$top/parts-$mode"/*.log; do
        $plimsoll rollup "$part" --to "${part%.log}" >"$top/out.txt"
        rm "$part"
    done
    took join $plimsoll rollup "$top/parts-$mode"/* --to "$top/$mode.rolled-parts"
    whole=$($plimsoll traffic "$log" -o json | jq '.totals.requests')
    joined=$($plimsoll traffic "$top/$mode.rolled-parts" -o json | jq '.totals.requests')
    echo "| $mode | $(awk "BEGIN { printf \"%.2f MB, %.2f %%\", $bytes / 1e6, 100 * $bytes / $size }") | $(median rollup) | $(median clients-log) | $(median clients-rolled) | $(median traffic-log) | $(median traffic-rolled) | $(median join) |"
    if [ "$whole" != "$joined" ]; then
        echo "$mode: $whole requests in the log, $joined in its parts" >&2
        code=1
    fi
    if [ $((bytes * 50)) -gt "$size" ]; then
        echo "$mode: the roll-up has more than 2 % of the log" >&2
        code=1
    fi
    rm -rf "$top/parts-$mode" "$top/$mode".rolled*
done
exit $code

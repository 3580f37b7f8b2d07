#!/usr/bin/env bash
# The report of a large bundle: a 2 GB audit log, a 1 GB snapshot of etcd, 500 metrics pages of 3.7 MB, the sample's heaps, cgroups and objects;
# once as it is found, and once with a window that is named. Prints the figures; fails if one takes 60 s or 600 MB, or a total is not that of
# the command that owns it. Needs 4 GB of disk. report.sh [repeat|fleet]...
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
database=$top/etcd-1GB.db
if [ ! -s "$database" ] || [ benches/make_etcd.py -nt "$database" ]; then
    $python benches/make_etcd.py --size 1GB "$database.part" >"$top/etcd-1GB.json"
    mv "$database.part" "$database"
fi
echo "| log | window | s | peak RSS MB | HTML, MB |"
echo "| --- | --- | --: | --: | --: |"
for mode in "$@"; do
    log=$top/$mode-2GB.log
    if [ ! -s "$log" ] || [ benches/make_logs.py -nt "$log" ]; then
        $python benches/make_logs.py "$mode" --size 2GB "$log.part"
        mv "$log.part" "$log"
    fi
    bundle=$top/report-$mode
    rm -rf "$bundle"
    mkdir -p "$bundle/audit/apiserver-0" "$bundle/etcd"
    ln "$log" "$bundle/audit/apiserver-0/audit.log"
    ln "$database" "$bundle/etcd/after.db"
    cp -r samples/list-storm/{heap,cgroup,objects} "$bundle"
    from=$(head -n 1 "$log" | jq -r .requestReceivedTimestamp)
    to=$(tail -n 1 "$log" | jq -r .requestReceivedTimestamp)
    first=$(date -d "$from" +%s)
    last=$(date -d "$to" +%s)
    $python benches/make_scrapes.py "$bundle" --scrapes 250 --start "$first" --every $(((last - first) / 250)) >/dev/null
    echo "cluster: $mode" >"$bundle/bundle.yaml"
    half=$(((first + last) / 2))
    for window in found named; do
        flags=()
        [ "$window" = found ] || flags=(--from "$(date -u -d @$half +%FT%TZ)" --to "$(date -u -d @$((half + (last - first) / 20)) +%FT%TZ)")
        /usr/bin/time -q -o "$top/time.txt" -f '%e %M' $plimsoll report "$bundle" -o html "${flags[@]}" >"$top/report.html"
        read -r seconds kilobytes <"$top/time.txt"
        megabytes=$((kilobytes * 1024 / 1000000))
        echo "| $mode | $window | $seconds | $megabytes | $(stat -c %s "$top/report.html" | awk '{ printf "%.1f", $1 / 1e6 }') |"
        if [ "${seconds%.*}" -ge 60 ] || [ "$megabytes" -ge 600 ]; then
            echo "not under 60 s and 600 MB" >&2
            code=1
        fi
    done
    events=$($plimsoll report "$bundle" -o json | jq '.sections.traffic.totals.requests')
    alone=$($plimsoll traffic "$bundle" --by verb,resource -o json | jq '.totals.requests')
    if [ "$events" != "$alone" ]; then
        echo "$events requests in the report, $alone by traffic" >&2
        code=1
    fi
    rm -rf "$bundle"
done
exit $code

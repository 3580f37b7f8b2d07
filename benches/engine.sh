#!/usr/bin/env bash
# The roll-up of a fleet's log by the reader, and by a Spark of two workers with one core each: seconds, and peak RSS of plimsoll (not of Spark).
#   .ci/setup --full engine && cargo build --release --features dataset,engine && benches/engine.sh 1GB 5GB
set -euo pipefail
cd "$(dirname "$0")/.."
plimsoll=$PWD/target/release/plimsoll
bench=$PWD/target/bench
mkdir -p "$bench"
spark=$(echo "$PWD"/target/engine-venv/lib/python*/site-packages/pyspark)
home=$(mktemp -d)
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
for part in "$spark"/*; do
    [ "${part##*/}" = work ] || ln -s "$part" "$home/"
done
SPARK_HOME=$home SPARK_LOCAL_IP=127.0.0.1 setsid "$home/bin/spark-submit" --master 'local-cluster[2,1,1024]' \
    --class org.apache.spark.sql.connect.service.SparkConnectServer --conf spark.ui.enabled=false \
    --conf spark.connect.grpc.binding.address=127.0.0.1 --conf "spark.connect.grpc.binding.port=$port" \
    --conf "spark.local.dir=$home/local" spark-internal >"$home/server.log" 2>&1 &
server=$!
trap 'kill -9 -- "-$server" 2>/dev/null; rm -rf "$home"' EXIT
for _ in $(seq 120); do
    ! grep -q "Registered executor" "$home/server.log" || break
    sleep 1
done
echo "| log | reader s | engine s | ratio | reader MB | engine MB |"
echo "| --- | --: | --: | --: | --: | --: |"
for size in "${@:-1GB}"; do
    log=$bench/fleet-$size.log
    [ -s "$log" ] || target/venv/bin/python benches/make_logs.py fleet --size "$size" "$log"
    figures=()
    for source in "$log" "file://$log"; do
        to=$home/rolled-$size-${#figures[@]}
        options=()
        [ "$source" = "$log" ] || options=(--engine "sc://127.0.0.1:$port")
        /usr/bin/time -q -o "$home/time.txt" -f '%e %M' "$plimsoll" rollup "$source" --no-cache --to "$to" "${options[@]}" >/dev/null
        read -r seconds kilobytes <"$home/time.txt"
        figures+=("$seconds" "$((kilobytes * 1024 / 1000000))")
    done
    ratio=$(python3 -c "print(f'{${figures[2]} / ${figures[0]}:.1f}')")
    echo "| $size | ${figures[0]} | ${figures[2]} | $ratio | ${figures[1]} | ${figures[3]} |"
done

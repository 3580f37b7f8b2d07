#!/usr/bin/env bash
# The history store at size: 5,000 namespaces x 8 resources x 60 days at 5 minutes, 691 million samples, written through the store's own
# writer, read again as days, and quotas proposed from it. Prints the figures; fails if the peaks are not the known ones, if reading is not under
# 10 s and 500 MB, or proposing not under 20 s and 1 GB.
# Needs 10 GB of disk and half an hour. history.sh [FOLDER [NAMESPACES [DAYS]]]
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-target/bench/history}
namespaces=${2:-5000}
days=${3:-60}
cargo build --release --example store --bin plimsoll
program=target/release/examples/store
rm -rf "$folder"
mkdir -p "$folder"
/usr/bin/time -q -o "$folder.make" -f '%e %M' $program make "$folder/store" "$namespaces" "$days" >"$folder.log"
/usr/bin/time -q -o "$folder.read" -f '%e %M' $program read "$folder/store" | tee "$folder.told"
/usr/bin/time -q -o "$folder.propose" -f '%e %M' target/release/plimsoll quota propose "$folder/store" -o csv >"$folder.csv"
read -r make_seconds make_kilobytes <"$folder.make"
read -r seconds kilobytes <"$folder.read"
read -r propose_seconds propose_kilobytes <"$folder.propose"
of() { du -sb "$folder/store/$1" | cut -f1; }
echo
echo "| series | days | samples | written and sealed, s | peak RSS MB | points, bytes | days, bytes | read, s | peak RSS MB | quota propose, s | peak RSS MB |"
echo "| --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |"
echo "| $((namespaces * 8)) | $days | $((namespaces * 8 * days * 288)) | $make_seconds | $((make_kilobytes / 977)) | $(of points) | $(of days) | $seconds | $((kilobytes / 977)) | $propose_seconds | $((propose_kilobytes / 977)) |"
code=0
grep -q "$((namespaces * 8)) series, $((namespaces * 8 * days)) days, $((namespaces * 8 * days * 288)) samples, 0 wrong, 0 losses" "$folder.told" || code=1
[ "${seconds%.*}" -lt 10 ] && [ "$kilobytes" -lt 500000 ] || code=1
# A header, and a proposal for each series, in under 20 s and 1 GB.
[ "$(wc -l <"$folder.csv")" = "$((namespaces * 8 + 1))" ] || code=1
[ "${propose_seconds%.*}" -lt 20 ] && [ "$propose_kilobytes" -lt 977000 ] || code=1
rm -rf "$folder" "$folder".{make,read,log,told,propose,csv}
exit $code

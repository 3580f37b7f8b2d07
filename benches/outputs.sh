#!/bin/sh
# Outputs of two builds of plimsoll, for every command and every sample: what differs between them, as `diff` has it.
#
#   benches/outputs.sh BEFORE AFTER [FOLDER]
#
# BEFORE and AFTER are programs. FOLDER (target/outputs) keeps all outputs: FOLDER/before/NAME and FOLDER/after/NAME, stdout with stderr
# and the exit code behind it. Clocks are left out (--until of a report's day is fixed by its bundle; "in 0.3 s" is cut).
set -u
# Outputs are those of the inputs: nothing is answered from the cache of roll-ups.
export PLIMSOLL_CACHE_FROM=1000TB
before=$1 after=$2 folder=${3:-target/outputs}
cd "$(dirname "$0")/.." || exit 2
mkdir -p "$folder/before" "$folder/after"

one() { # NAME WORDS...
    name=$1
    shift
    for side in before after; do
        program=$before
        [ "$side" = after ] && program=$after
        { HOME=/nonexistent "$program" "$@" 2>"$folder/stderr"; echo "exit $?"; } >"$folder/$side/$name"
        sed -e 's/ in [0-9.]* s\././' "$folder/stderr" >>"$folder/$side/$name"
    done
    cmp -s "$folder/before/$name" "$folder/after/$name" || {
        echo "=== $name: plimsoll $*"
        diff "$folder/before/$name" "$folder/after/$name" | cut -c1-400
    }
}

for sample in list-storm overload-restart quiet levels controllers balance webhooks forms growth seats apf-forms cgroup-forms damage heap metrics-forms store; do
    path=samples/$sample
    [ -e "$path" ] || continue
    for form in table json; do
        flags="-o $form"
        # shellcheck disable=SC2086
        {
            one "$sample-traffic-$form" traffic "$path" $flags
            one "$sample-traffic-user-$form" traffic "$path" --by user,agent,code $flags
            one "$sample-series-$form" traffic "$path" --series $flags
            one "$sample-metrics-$form" traffic "$path" --from metrics --health $flags
            one "$sample-clients-$form" clients "$path" $flags
            one "$sample-seats-$form" clients "$path" --seats $flags
            one "$sample-watch-cache-$form" clients "$path" --emit watch-cache $flags
            one "$sample-memory-$form" memory show "$path" $flags
            one "$sample-memory-recursive-$form" memory show "$path" --recursive $flags
            one "$sample-etcd-health-$form" etcd health "$path" $flags
            for part in usage top history pages check split; do
                one "$sample-etcd-$part-$form" etcd "$part" "$path" $flags
            done
            one "$sample-heap-$form" heap top "$path" $flags
            one "$sample-quota-propose-$form" quota propose "$path" $flags
            one "$sample-quota-api-$form" quota propose "$path" --api $flags
            one "$sample-quota-lint-$form" quota lint "$path" $flags
            one "$sample-quota-check-$form" quota check "$path" $flags
            one "$sample-forecast-$form" forecast "$path" $flags
            one "$sample-guard-$form" guard events "$path" $flags
            one "$sample-webhooks-$form" guard webhooks "$path" $flags
            one "$sample-policies-$form" guard policies "$path" $flags
            one "$sample-balance-$form" balance "$path" $flags
            one "$sample-controllers-$form" controllers "$path" $flags
            one "$sample-compare-$form" compare samples/quiet "$path" $flags
        }
    done
    one "$sample-fence" clients "$path" --emit flowschema
    one "$sample-gateway" clients "$path" --emit gateway
    one "$sample-manifests" quota propose "$path" -o yaml
    one "$sample-report" report "$path" -o markdown
done

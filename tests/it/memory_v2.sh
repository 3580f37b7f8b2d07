#!/bin/busybox sh
# The first process of the emulated machine: makes groups of 64 MiB, fills them, asks plimsoll. Read by memory_v2.rs.
export PATH=/bin
busybox mount -t proc none /proc
busybox --install -s /bin
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mount -t tmpfs none /tmp
mount -t cgroup2 none /sys/fs/cgroup
echo 0 > /proc/sys/kernel/printk
# A disk in memory: its page cache is charged to who reads it, its own pages are not there until written.
insmod /brd.ko rd_nr=1 rd_size=262144
# The last one to close a disk takes its page cache along.
exec 9< /dev/ram0
mkdir -p /run/plimsoll
top=/sys/fs/cgroup
echo +memory > $top/cgroup.subtree_control

say() { echo; echo "@@@ $*"; }
group() { mkdir $top/$1; echo 64M > $top/$1/memory.max; }
# enter GROUP COMMAND...: runs it there, in the background
enter() { name=$1; shift; sh -c 'echo $$ > '$top/$name'/cgroup.procs; exec "$@"' sh "$@" & }
limits() { echo "$(cat $top/$1/memory.high) $(cat $top/$1/memory.max) $(kill -0 $2 && echo alive)"; }
fill() { enter $1 sh -c 'dd if=/dev/ram0 of=/dev/null bs=1M count=150 2>/dev/null; touch /tmp/filled.'$1'; while :; do sleep 1; done'; }
wait_for() { while [ ! -e $1 ]; do sleep 0.1; done; }
reclaim() { plimsoll memory reclaim "$@" --pause 200ms --state /run/plimsoll --yes; }

group cache
fill cache; cache=$!
wait_for /tmp/filled.cache
sleep 3
say cache
plimsoll memory show /cache -o json --over 2s
say reclaim
reclaim /cache --step 4MiB --most 90% -o json
say after reclaim
limits cache $cache

# What one group has read is not charged to the next: begin anew.
echo 1 > /proc/sys/vm/drop_caches
group high
fill high; high=$!
wait_for /tmp/filled.high
sleep 1
say high
reclaim /high --method high --step 4MiB --until 'cache<24MiB' --most 90% -o json
say after high
limits high $high

echo 1 > /proc/sys/vm/drop_caches
group signal
fill signal; signal=$!
wait_for /tmp/filled.signal
plimsoll memory reclaim /signal --method high --step 256KiB --pause 100ms --state /run/plimsoll --yes -q > /dev/null & running=$!
sleep 1
kill -INT $running
wait $running
say after sigint
limits signal $signal
for after in 0.7 0.9 1.2; do
    plimsoll memory reclaim /signal --method high --step 256KiB --pause 100ms --state /run/plimsoll --yes -q > /dev/null & running=$!
    sleep $after
    kill -KILL $running
    wait $running 2> /dev/null
done
# As a run would leave it that was killed in mid-step.
echo 41943040 > $top/signal/memory.high
echo '{"folder":"'$top'/signal","file":"memory.high","was":null,"set":41943040}' > /run/plimsoll/memory-0000000000000001.json
reclaim /signal --until 'cache<1TiB' > /dev/null
say after sigkill and repair
limits signal $signal

group anon
# tmpfs would be shared memory; the heap of a shell is anonymous.
enter anon awk 'BEGIN { x = sprintf("%1048576s", ""); for (i = 0; i < 56; i++) a[i] = x i; print "" > "/tmp/filled.anon"; close("/tmp/filled.anon"); while (1) system("sleep 1") }'
wait_for /tmp/filled.anon
say anon
plimsoll memory show /anon -o json --over 1s

echo 1 > /proc/sys/vm/drop_caches
group thrash
enter thrash sh -c 'dd if=/dev/ram0 of=/dev/null bs=1M count=100 skip=150 2>/dev/null; touch /tmp/filled.thrash; while :; do dd if=/dev/ram0 of=/dev/null bs=1M count=100 skip=150 2>/dev/null; done'
wait_for /tmp/filled.thrash
sleep 2
say thrash
plimsoll memory show /thrash -o json --over 8s

say end
poweroff -f

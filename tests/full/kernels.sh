#!/bin/busybox sh
# The first process of the emulated machine: makes groups of 64 MiB, fills them, asks plimsoll. Read by kernels.rs.
export PATH=/bin
busybox mount -t proc none /proc
busybox --install -s /bin
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mount -t tmpfs none /tmp
mount -t cgroup2 none /sys/fs/cgroup
echo 0 > /proc/sys/kernel/printk
# Disks in memory: their page cache is charged to who reads it, their own pages are not there until written.
insmod /brd.ko rd_nr=2 rd_size=262144
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
# anonymous GROUP MIB: tmpfs would be shared memory; the heap of a shell is anonymous
anonymous() {
    enter $1 awk 'BEGIN { x = sprintf("%1048576s", ""); for (i = 0; i < '$2'; i++) a[i] = x i; print "" > "/tmp/filled.'$1'"; close("/tmp/filled.'$1'"); while (1) system("sleep 1") }'
    wait_for /tmp/filled.$1
}
reclaim() { plimsoll memory reclaim "$@" --pause 200ms --state /run/plimsoll --yes; }

# What a kernel makes of swappiness, with swap there to be used.
swappiness() {
    mkswap /dev/ram1 > /dev/null
    swapon /dev/ram1
    group mixed
    anonymous mixed 24
    enter mixed dd if=/dev/ram0 of=/dev/null bs=1M count=30 skip=220 2> /dev/null; wait $!
    say mixed
    strace -f -o /tmp/trace -P $top/mixed/memory.reclaim -e trace=write \
        plimsoll memory reclaim /mixed --until 'cache<4MiB' --most 100% --step 8MiB --pause 200ms --state /run/plimsoll --yes -o json
    say mixed writes
    cat /tmp/trace
    say mixed swap
    cat $top/mixed/memory.swap.current
    # That there was something to swap, and where to.
    echo 16M > $top/mixed/memory.reclaim
    cat $top/mixed/memory.swap.current
}

case "$(cat /proc/cmdline)" in
*only=swappiness*)
    swappiness
    say end
    poweroff -f
    ;;
esac

group cache
fill cache; cache=$!
wait_for /tmp/filled.cache
sleep 3
say cache
plimsoll memory show /cache -o json --over 2s
say reclaim
strace -f -o /tmp/trace -P $top/cache/memory.reclaim -e trace=write \
    plimsoll memory reclaim /cache --step 4MiB --most 90% --pause 200ms --state /run/plimsoll --yes -o json
say reclaim writes
cat /tmp/trace
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
# Its first write to memory.high shows that it can restore, the second lowers, the third restores: a signal at the second comes
# while the kernel reclaims, one at the third while the limit is low.
at_write() {
    strace -f -o /tmp/trace -P $top/signal/memory.high -e trace=write -e inject=write:signal=$2:when=$1 \
        plimsoll memory reclaim /signal --method high --step 4MiB --pause 100ms --state /run/plimsoll --yes -q > /tmp/out 2>&1
    echo "$(limits signal $signal), code $?, $(ls /run/plimsoll | grep -c json) notes"
    cat /tmp/trace
}
for write in 2 3; do
    say sigint at $write
    at_write $write INT
    say sigkill at $write
    at_write $write KILL
    say next run after sigkill at $write
    reclaim /signal --until 'cache<1TiB' 2>&1
    say after next run $write
    limits signal $signal
done

echo 1 > /proc/sys/vm/drop_caches
# What samples/reclaim runs, as it stands there; and the same at work while the cache grows.
group kube
enter kube /bin/kube-apiserver 1000; kube=$!
grow() { enter kube dd if=/dev/ram0 of=/dev/null bs=1M count=$2 skip=$1 2> /dev/null; wait $!; }
lines() { wc -l < /tmp/daemon; }
# acted LINES: waits until the daemon has told of so many
acted() { for i in $(seq 100); do [ "$(lines)" -ge $1 ] && return; sleep 0.1; done; }
daemon() { : > /tmp/daemon; "$@" > /tmp/daemon 2> /tmp/daemon.said & daemon=$!; }
ended() { kill -TERM $daemon; wait $daemon; echo "code $?, $(limits kube $kube), $(lines) lines"; cat /tmp/daemon.said /tmp/daemon; }
usage() { cat $top/kube/memory.current; }
# At 82 % of the limit or below.
low() { for i in $(seq 200); do [ "$(usage)" -le 55000000 ] && return; sleep 0.1; done; }
grow 0 24
daemon plimsoll memory reclaim --component kube-apiserver --daemon --high 90% --low 80% --every 300ms --pause 100ms --yes -o json
sleep 1.5
say daemon
echo "$(lines) lines at $(usage)"
# The daemon stands still while the cache grows: it would rightly stop at the pressure of a reader that meets the limit, which on a slow
# machine lasts.
for more in 24 84; do
    kill -STOP $daemon
    grow $more 60
    kill -CONT $daemon
    low
    usage
done
ended
for what in unit daemonset; do
    grow 144 60
    say before $what
    usage
    case $what in
    unit) daemon $(cat /unit.words) ;;
    daemonset)
        # A container: its own root, the host's below /host.
        mkdir -p /container/host /container/bin
        cp -r /lib* /container
        cp /bin/plimsoll /container/bin
        mount --rbind / /container/host
        daemon chroot /container $(cat /daemonset.words)
        ;;
    esac
    acted 1
    say $what
    ended
    echo 1 > /proc/sys/vm/drop_caches
done

group anon
anonymous anon 56
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

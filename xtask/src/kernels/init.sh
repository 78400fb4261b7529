#!/bin/sh
# The first process in the virtual machine. What is read of it goes to the second serial line; the first one has the
# kernel's own messages.
/bin/busybox mkdir -p /bb /proc /sys /dev /run /tmp
/bin/busybox --install -s /bb
export PATH=/bin:/bb HOME=/tmp
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm
mount -t tmpfs tmp /dev/shm
mount -t tmpfs run /run
mount -t bpf bpf /sys/fs/bpf
stty -F /dev/ttyS1 raw 2>/dev/null
exec >/dev/ttyS1 2>&1 </dev/null
echo "=== kernel $(uname -r)"
for module in /modules/$release/*.ko; do
    insmod "$module"
done
ip link set lo up
. /plans/$plan
echo "=== end"
poweroff -f

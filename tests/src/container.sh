# Boots a copy of this machine with systemd as process 1. All changes in the copy are in memory, and end with it.
# Arguments: the name of a control group, and the index of eth0. Must run in the copy's network namespace, and in a
# mount namespace of its own.
set -eu
group=$1 index=$2

if [ "${3-}" != inside ]; then
    mount --make-rprivate /
    mount -t tmpfs tmpfs /mnt
    mkdir /mnt/cgroup
    mount -t cgroup2 cgroup2 /mnt/cgroup
    mkdir "/mnt/cgroup/$group"
    echo $$ >"/mnt/cgroup/$group/cgroup.procs"
    # The caller has the other end of standard input. The kernel closes it when the caller ends.
    exec 3<&0 </dev/null
    (trap '' HUP INT TERM; cat <&3; kill -KILL $$) >/dev/null &
    exec 3<&-
    exec unshare --cgroup --pid --uts --ipc --fork --kill-child sh -c "$SCRIPT" sh "$group" "$index" inside
fi

mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root
cd /mnt/root
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t bpf -o mode=0700 bpf sys/fs/bpf
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs tmpfs tmp
mount -t tmpfs -o mode=755 tmpfs dev
mkdir dev/pts
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
for device in null zero full random urandom tty; do
    touch dev/$device
    mount --bind /dev/$device dev/$device
done
mount --bind "$SHARED" mnt

# Removes this machine's services.
: >etc/machine-id
rm -rf etc/fstab etc/systemd/system/*.wants
cat >etc/systemd/system/test.target <<END
[Unit]
Wants=systemd-journald.service
After=systemd-journald.service
END

# There is no udev. This is its record of the interface.
mkdir -p run/udev/data run/udev/tags/systemd
cat >"run/udev/data/n$index" <<END
I:1
E:SYSTEMD_ALIAS=/sys/subsystem/net/devices/eth0
G:systemd
Q:systemd
V:1
END
touch "run/udev/tags/systemd/n$index"

mkdir mnt2
pivot_root . mnt2
umount -l /mnt2
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --system --unit=test.target --log-target=journal --show-status=no

#!/usr/bin/env bash
# A native XDP program on one end of a veth takes 14 bytes per frame from the byte counters of both ends.
#
# Seen on Linux 6.18, with iproute2 6.1.0-3 and bpftool 7.1.0+6.1.192-3 of Debian 12. The program passes every frame (XDP_PASS).
# Both ends should count the 60 bytes of a frame, as they do without a program and with one in generic mode. In native mode both
# count 46, without the Ethernet header, although the sending end has no program.
#
# Output seen:
#   none: sent 60 bytes, received 60 bytes
#   xdpgeneric: sent 60 bytes, received 60 bytes
#   xdpdrv: sent 46 bytes, received 46 bytes
set -euo pipefail
folder=$(mktemp -d)
from=finding-from-$$
to=finding-to-$$
trap 'ip netns del "$from" 2>/dev/null || true; ip netns del "$to" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download -qq iproute2=6.1.0-3 bpftool=7.1.0+6.1.192-3
for package in *.deb; do dpkg-deb -x "$package" root; done
export PATH=$folder/root/sbin:$folder/root/usr/sbin:$PATH
ip -V
bpftool version | head -1

for space in "$from" "$to"; do
  ip netns add "$space"
  ip netns exec "$space" bash -c 'echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6'
done
ip link add name end netns "$from" type veth peer name end netns "$to"
ip -n "$from" link set dev end up
ip -n "$to" link set dev end up
cat >count.py <<'P'
import ctypes, json, struct, subprocess, sys, time

SEND = r"""import socket
sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
sender.bind(("end", 0))
sender.send(b"\xff" * 6 + b"\x02" * 6 + b"\x88\xb5" + bytes(46))"""
source, target = sys.argv[1:]


def load():
    """Loads "return XDP_PASS" and gives its file descriptor."""
    code = ctypes.create_string_buffer(struct.pack("<BBhiBBhi", 0xB7, 0, 0, 2, 0x95, 0, 0, 0))
    license = ctypes.create_string_buffer(b"GPL")
    attributes = struct.pack("<IIQQ", 6, 2, ctypes.addressof(code), ctypes.addressof(license))
    buffer = ctypes.create_string_buffer(attributes, 128)
    descriptor = ctypes.CDLL(None).syscall(321, 5, buffer, 128)
    assert descriptor >= 0
    return descriptor


def counted(space, direction):
    shown = subprocess.check_output(["ip", "-n", space, "-j", "-s", "link", "show", "dev", "end"])
    counters = json.loads(shown)[0]["stats64"][direction]
    return counters["packets"], counters["bytes"]


def grown():
    before = counted(source, "tx"), counted(target, "rx")
    subprocess.check_call(["ip", "netns", "exec", source, "python3", "-c", SEND])
    time.sleep(0.5)
    after = counted(source, "tx"), counted(target, "rx")
    (sent, sent_bytes), (received, received_bytes) = [(a[0] - b[0], a[1] - b[1]) for a, b in zip(after, before)]
    assert (sent, received) == (1, 1)
    return f"sent {sent_bytes} bytes, received {received_bytes} bytes"


with open(f"/proc/self/fdinfo/{load()}") as information:
    program = next(line.split()[1] for line in information if line.startswith("prog_id"))
print("none:", grown())
for mode in ("xdpgeneric", "xdpdrv"):
    bpftool = ["ip", "netns", "exec", target, "bpftool", "net"]
    subprocess.check_call([*bpftool, "attach", mode, "id", program, "dev", "end"])
    print(f"{mode}:", grown())
    subprocess.check_call([*bpftool, "detach", mode, "dev", "end"])
P
python3 count.py "$from" "$to" | tee seen
cmp - seen <<'END'
none: sent 60 bytes, received 60 bytes
xdpgeneric: sent 60 bytes, received 60 bytes
xdpdrv: sent 46 bytes, received 46 bytes
END

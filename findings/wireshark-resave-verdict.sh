#!/usr/bin/env bash
# Wireshark's tools damage a pcapng file that has verdicts: they write the option under the number of another one.
#
# wireshark-common 4.0.17-0+deb12u3 of Debian 12. The enhanced packet block of pcapng has the options 6 (queue, 4 bytes) and 7
# (verdict: here type 2, XDP, and 8 bytes). editcap, mergecap and reordercap read both, and should write both. They write
# the verdict as option 6 with 9 bytes, and then refuse their own file.
#
# Output seen:
#   options before: 6/4 7/9
#   options after: 6/4 6/9
#   capinfos: The file "after.pcapng" appears to be damaged or corrupt.
#   (pcapng: packet block queue option length 9 is not 4)
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
version=4.0.17-0+deb12u3
apt-get -o APT::Sandbox::User=root download -qq wireshark-common=$version libwiretap13=$version libwsutil14=$version libwireshark16=$version
for package in *.deb; do dpkg-deb -x "$package" root; done
export LD_LIBRARY_PATH=$folder/root/usr/lib/x86_64-linux-gnu
bin=$folder/root/usr/bin
"$bin/editcap" --version | head -1

cat >capture.py <<'P'
import struct, sys


def padded(data):
    return data + bytes(-len(data) % 4)


def block(kind, body):
    length = len(body) + 12
    return struct.pack("<II", kind, length) + body + struct.pack("<I", length)


def option(number, value):
    return struct.pack("<HH", number, len(value)) + padded(value)


def options(data):
    position = 0
    while position < len(data):
        kind, length = struct.unpack_from("<II", data, position)
        body = data[position + 8 : position + length - 4]
        if kind == 6:
            at_option = 20 + len(padded(bytes(struct.unpack_from("<I", body, 12)[0])))
            while at_option < len(body):
                number, size = struct.unpack_from("<HH", body, at_option)
                if number == 0:
                    break
                yield f"{number}/{size}"
                at_option += 4 + len(padded(bytes(size)))
        position += length


if sys.argv[1] == "write":
    packet = bytes.fromhex("020000000001020000000002080045000018000100004011000000000000000000000000000000000000")[:38]
    header = struct.pack("<IIIII", 0, 0, 0, len(packet), len(packet))
    queue = option(6, struct.pack("<I", 2))
    verdict = option(7, b"\x02" + struct.pack("<Q", 1))
    with open(sys.argv[2], "wb") as file:
        file.write(block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)))
        file.write(block(1, struct.pack("<HHI", 1, 0, 65535)))
        file.write(block(6, header + padded(packet) + queue + verdict + option(0, b"")))
else:
    print(*options(open(sys.argv[2], "rb").read()))
P
python3 capture.py write before.pcapng
"$bin/capinfos" -c before.pcapng >/dev/null
echo "options before: $(python3 capture.py read before.pcapng)"
for tool in editcap mergecap reordercap; do
  case $tool in
    editcap) "$bin/editcap" -F pcapng before.pcapng after.pcapng ;;
    mergecap) "$bin/mergecap" -F pcapng -w after.pcapng before.pcapng ;;
    reordercap) "$bin/reordercap" before.pcapng after.pcapng >/dev/null ;;
  esac
  echo "$tool: options after: $(python3 capture.py read after.pcapng)"
  test "$(python3 capture.py read after.pcapng)" = "6/4 6/9"
done
! "$bin/capinfos" -c after.pcapng 2>refused
grep 'packet block queue option length 9 is not 4' refused

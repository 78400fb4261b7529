#!/usr/bin/env bash
# Varnish's vsthrottle keeps a client blocked after the end of its block if the client tried in the meantime.
#
# varnish 7.1.1-2+deb12u1 and varnish-modules 0.20.0-2 of Debian 12. "is_denied(key, 5, 10s, 4s)" allows five requests in ten seconds,
# and denies all for four seconds after the limit was reached, as the manual page says. After 4.3 s a client has two tokens, and
# two requests should pass. They do for a client that was silent. One that asked once a second in the meantime gets none. Needs
# a C compiler, as Varnish does.
#
# Output seen, six requests each:
#   at once: yyyyy-
#   after 4.3 silent seconds: yy----
#   after 4.3 seconds with attempts at 1, 2 and 3: ------
set -euo pipefail
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || { kill "$server" && wait "$server"; } 2>/dev/null; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download -qq varnish=7.1.1-2+deb12u1 varnish-modules=0.20.0-2 \
  libvarnishapi3=7.1.1-2+deb12u1 libjemalloc2=5.3.0-1
for package in *.deb; do dpkg-deb -x "$package" root; done
export LD_LIBRARY_PATH=$folder/root/usr/lib/x86_64-linux-gnu:$folder/root/usr/lib/x86_64-linux-gnu/varnish
modules=$(dirname "$(find root -name libvmod_vsthrottle.so)")
cat >default.vcl <<'C'
vcl 4.1;
import vsthrottle;
backend none none;
sub vcl_recv {
  if (vsthrottle.is_denied(req.http.key, 5, 10s, 4s)) {
    return (synth(429));
  }
  return (synth(200));
}
C
port=$((20000 + RANDOM % 10000))
root/usr/sbin/varnishd -F -j none -n "$folder/work" -f "$folder/default.vcl" -a "127.0.0.1:$port" -s malloc,10m \
  -p "vmod_path=$folder/$modules" -T none >log 2>&1 &
server=$!
python3 - "$port" <<'P' | tee seen
import http.client
import sys
import time


def ask(key):
    connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
    connection.request("GET", "/", headers={"key": key})
    return "y" if connection.getresponse().status == 200 else "-"


for _ in range(100):
    try:
        ask("start")
        break
    except OSError:
        time.sleep(0.1)
start = time.monotonic()
at_once = [ask("silent") + ask("trying") for _ in range(6)]
print("at once:", "".join(pair[0] for pair in at_once))
for second in 1, 2, 3:
    time.sleep(start + second - time.monotonic())
    for _ in range(6):
        ask("trying")
time.sleep(start + 4.3 - time.monotonic())
print("after 4.3 silent seconds:", "".join(ask("silent") for _ in range(6)))
print("after 4.3 seconds with attempts at 1, 2 and 3:", "".join(ask("trying") for _ in range(6)))
P
cmp - seen <<'END'
at once: yyyyy-
after 4.3 silent seconds: yy----
after 4.3 seconds with attempts at 1, 2 and 3: ------
END

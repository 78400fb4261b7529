#!/usr/bin/env bash
# dnsdist's truncated answers reach no client of c-ares that has a cookie from the server behind it.
#
# dnsdist 1.7.3-2 and bind9 1:9.18.49-1~deb12u3 of Debian 12, aiodns 4.0.4 and pycares 5.2.1 (with c-ares) from PyPI. dnsdist lets five
# queries per second from an address pass to BIND and answers the others with TC, so that a real client asks by TCP. BIND gives
# clients a cookie. dnsdist copies the OPT record into its own answers and leaves out the cookie, and RFC 7873 tells a client that
# has one to drop such answers: c-ares waits in vain. Without EDNS the same client gets all its answers. Needs iproute2.
#
# Output seen:
#   with EDNS: 5 of 8 answered
#   without EDNS: 8 of 8 answered
set -euo pipefail
folder=$(mktemp -d)
space=finding-$$
servers=()
trap '[ ${#servers[@]} -eq 0 ] || kill "${servers[@]}"; wait; ip netns del "$space" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
bind=1:9.18.49-1~deb12u3
apt-get -o APT::Sandbox::User=root download -qq dnsdist=1.7.3-2 bind9=$bind bind9-libs=$bind libuv1 libjemalloc2 liblmdb0 libfstrm0 \
  libprotobuf-c1 libmaxminddb0 libluajit-5.1-2 libsnmp40 libcdb1 libre2-9 libh2o-evloop0.13 libwslay1 libwrap0
for package in *.deb; do dpkg-deb -x "$package" root; done
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check aiodns==4.0.4 pycares==5.2.1
printf '%s\n' '$TTL 60' '@ SOA ns mail 1 60 60 60 60' '@ NS ns' 'ns A 127.0.0.1' '*.www A 192.0.2.7' >zone
cat >named.conf <<C
options {
  directory "$folder";
  listen-on port 5301 { 127.0.0.1; };
  listen-on-v6 { none; };
  pid-file none;
  session-keyfile none;
  recursion no;
};
controls { };
zone "example" { type primary; file "$folder/zone"; };
C
cat >dnsdist.conf <<'C'
setLocal("127.0.0.1:53")
setSecurityPollSuffix("")
newServer({address="127.0.0.1:5301", healthCheckMode="up"})
addAction(MaxQPSIPRule(5), TCAction())
C
cat >ask.py <<'P'
import asyncio, sys

import aiodns
import pycares


async def main(name, flags):
    resolver = aiodns.DNSResolver(nameservers=["127.0.0.1"], timeout=1, tries=1, flags=flags)
    ask = lambda number: resolver.query_dns(f"{number}.www.example", "A")
    answers = [await ask(0)]
    answers += await asyncio.gather(*[ask(number) for number in range(1, 8)], return_exceptions=True)
    print(f"{name}: {sum(not isinstance(answer, Exception) for answer in answers)} of 8 answered")


async def wait():
    for _ in range(50):
        try:
            return await aiodns.DNSResolver(nameservers=["127.0.0.1"], timeout=1, tries=1, flags=0).query_dns("ns.example", "A")
        except aiodns.error.DNSError:
            await asyncio.sleep(0.1)


if len(sys.argv) == 1:
    asyncio.run(wait())
else:
    asyncio.run(main(sys.argv[1], pycares.ARES_FLAG_EDNS if sys.argv[1] == "with EDNS" else 0))
P
ip netns add "$space"
ip -n "$space" link set dev lo up
inside() { ip netns exec "$space" "$@"; }
library=$folder/root/usr/lib/x86_64-linux-gnu
inside env LD_LIBRARY_PATH="$library" root/usr/sbin/named -f -c "$folder/named.conf" &
servers+=($!)
inside env LD_LIBRARY_PATH="$library" root/usr/bin/dnsdist --supervised --disable-syslog -C dnsdist.conf >dnsdist.log 2>&1 &
servers+=($!)
inside venv/bin/python ask.py
for name in 'with EDNS' 'without EDNS'; do
  sleep 1.5 # The limit is full again.
  inside venv/bin/python ask.py "$name"
done | tee seen
cmp - seen <<'END'
with EDNS: 5 of 8 answered
without EDNS: 8 of 8 answered
END

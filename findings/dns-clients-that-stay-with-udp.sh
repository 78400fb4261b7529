#!/usr/bin/env bash
# Five DNS clients do not go to TCP for a truncated answer; two of them say that there are no addresses.
#
# py3dns 4.0.2, aiodnsresolver 0.0.157 and async-dns 2.0.1 from PyPI; udns-utils 0.4-1+b1, ldnsutils 1.8.3-1+b1 (drill) and
# libnet-dns-perl 1.36-1+deb12u1 of Debian 12. A server that limits its answers, or wants a proof of the client's address, sends an
# empty answer with the flag TC. A client should ask again by TCP then (RFC 2181, section 9), as Net::DNS does; so do the resolvers
# of glibc, Node and Ruby. The five send one datagram. py3dns and async-dns give an empty list, aiodnsresolver an error that means
# "no such record", dnsget a temporary failure, and drill a hint. These clients get no name from such a server.
#
# Output seen:
#   Net::DNS: asked by UDP TCP; 192.0.2.7
#   py3dns: asked by UDP; []
#   aiodnsresolver: asked by UDP; DnsNoMatchingAnswers
#   async_dns: asked by UDP; []
#   dnsget: asked by UDP; dnsget: unable to lookup A record for www.example.org: temporary failure in name resolution
#   drill: asked by UDP; nothing on its output
set -euo pipefail
folder=$(mktemp -d)
space=findings-dns-$$
server=
trap '[ -z "$server" ] || kill "$server"; ip netns delete "$space"; rm -rf "$folder"' EXIT
ip netns add "$space"
cd "$folder"
apt-get -o APT::Sandbox::User=root download -qq udns-utils=0.4-1+b1 libudns0=0.4-1+b1 ldnsutils=1.8.3-1+b1 libldns3=1.8.3-1+b1 \
  libnet-dns-perl=1.36-1+deb12u1
for package in *.deb; do dpkg-deb -x "$package" root; done
export LD_LIBRARY_PATH=$folder/root/usr/lib/x86_64-linux-gnu
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check py3dns==4.0.2 aiodnsresolver==0.0.157 async-dns==2.0.1
echo "nameserver 127.0.0.1" >resolv.conf
cat >server.py <<'P'
import socket, struct, threading


def answer(question, truncated):
    end = question.index(b"\0", 12) + 5
    record = b"" if truncated else b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 60, 4) + bytes([192, 0, 2, 7])
    flags = 0x8380 if truncated else 0x8180
    return question[:2] + struct.pack(">HHHHH", flags, 1, 0 if truncated else 1, 0, 0) + question[12:end] + record


def note(how):
    with open("asked", "a") as file:
        file.write(how + "\n")


def by_tcp():
    while True:
        connection, _ = tcp.accept()
        note("TCP")
        length = struct.unpack(">H", connection.recv(2, socket.MSG_WAITALL))[0]
        reply = answer(connection.recv(length, socket.MSG_WAITALL), False)
        connection.sendall(struct.pack(">H", len(reply)) + reply)
        connection.recv(1)


udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("127.0.0.1", 53))
tcp = socket.create_server(("127.0.0.1", 53))
threading.Thread(target=by_tcp, daemon=True).start()
open("ready", "w").close()
while True:
    question, client = udp.recvfrom(4096)
    note("UDP")
    udp.sendto(answer(question, True), client)
P
cat >ask.py <<'P'
import asyncio, sys

NAME = "www.example.org"


def py3dns():
    import DNS

    return DNS.dnslookup(NAME, "A")


def aiodnsresolver():
    from aiodnsresolver import TYPES, Resolver

    async def ask():
        resolve, _ = Resolver()
        return await resolve(NAME, TYPES.A)

    return asyncio.run(ask())


def async_dns():
    from async_dns.core import types
    from async_dns.resolver import ProxyResolver

    message, _ = asyncio.run(ProxyResolver(proxies=["127.0.0.1"]).query(NAME, types.A))
    return [record.data for record in message.an]


try:
    print(globals()[sys.argv[1]]())
except Exception as error:
    print(type(error).__name__)
P
cat >ask.pl <<'P'
use Net::DNS;
my $reply = Net::DNS::Resolver->new->query("www.example.org", "A");
print $reply ? ($reply->answer)[0]->address : "none", "\n";
P
inside() { ip netns exec "$space" "$@"; }
inside ip link set lo up
ip netns exec "$space" python3 server.py &
server=$!
for _ in $(seq 50); do [ -e ready ] && break || sleep 0.1; done
ask() { # name, command
  local name=$1 said
  shift
  : >asked
  # shellcheck disable=SC2016
  said=$(inside unshare --mount bash -c 'mount --bind "$1" /etc/resolv.conf; shift; timeout 30 "$@"' mount "$folder/resolv.conf" "$@" 2>&1 | tail -1 || true)
  echo "$name: asked by $(paste -sd' ' asked); ${said:-nothing on its output}"
}
{
  ask Net::DNS perl -Iroot/usr/share/perl5 ask.pl
  for library in py3dns aiodnsresolver async_dns; do ask "$library" venv/bin/python ask.py "$library"; done
  ask dnsget root/usr/bin/dnsget -t A www.example.org
  ask drill root/usr/bin/drill -Q www.example.org
} | tee seen
cmp - seen <<'END'
Net::DNS: asked by UDP TCP; 192.0.2.7
py3dns: asked by UDP; []
aiodnsresolver: asked by UDP; DnsNoMatchingAnswers
async_dns: asked by UDP; []
dnsget: asked by UDP; dnsget: unable to lookup A record for www.example.org: temporary failure in name resolution
drill: asked by UDP; nothing on its output
END

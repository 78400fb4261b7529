#!/usr/bin/env bash
# A truncated answer of dnslib has no question, so that c-ares and dnspython do not ask again by TCP.
#
# dnslib 0.9.26, aiodns 4.0.4 and pycares 5.2.1 (with c-ares), and dnspython 2.8.0 from PyPI. dnslib's server cuts answers that are longer
# than "udplen", here 512 bytes. The short answer should keep the question, by which a client knows to what it belongs, and have the
# flag TC. truncate() leaves a header of 12 bytes alone. c-ares calls it malformed, and dnspython's resolver goes on waiting, both
# without a question by TCP, where the server has the whole answer. Needs iproute2.
#
# Output seen:
#   truncate(): TC 1, questions 0
#   c-ares: asked udp: no answer
#   dnspython: asked udp: no answer
#   c-ares, question kept: asked udp tcp: 60 addresses
#   dnspython, question kept: asked udp tcp: 60 addresses
set -euo pipefail
folder=$(mktemp -d)
space=finding-$$
trap 'ip netns del "$space" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check dnslib==0.9.26 aiodns==4.0.4 pycares==5.2.1 dnspython==2.8.0
ip netns add "$space"
ip -n "$space" link set dev lo up
cat >ask.py <<'P'
import asyncio

import aiodns
import dns.resolver
from dnslib import DNSRecord, RR
from dnslib.server import BaseResolver, DNSHandler, DNSLogger, DNSServer

asked = set()


class Addresses(BaseResolver):
    def resolve(self, request, handler):
        asked.add(handler.protocol)
        reply = request.reply()
        for host in range(60):
            reply.add_answer(*RR.fromZone(f"www.example 60 A 192.0.2.{host}"))
        return reply


async def with_c_ares():
    resolver = aiodns.DNSResolver(nameservers=["127.0.0.1"], timeout=1, tries=1, flags=0)
    return len((await resolver.query_dns("www.example", "A")).answer)


def with_dnspython():
    resolver = dns.resolver.Resolver(configure=False)
    resolver.nameservers = ["127.0.0.1"]
    resolver.lifetime = 2
    return len(resolver.resolve("www.example", "A"))


def show(name, ask):
    asked.clear()
    try:
        answer = f"{ask()} addresses"
    except (aiodns.error.DNSError, dns.resolver.LifetimeTimeout):
        answer = "no answer"
    print(f"{name}: asked {' '.join(sorted(asked, reverse=True))}: {answer}")


short = DNSRecord.question("www.example").reply().truncate()
print(f"truncate(): TC {short.header.tc}, questions {len(short.questions)}")
DNSHandler.udplen = 512
for tcp in (False, True):
    DNSServer(Addresses(), port=53, address="127.0.0.1", tcp=tcp, logger=DNSLogger("error")).start_thread()
for name, ask in [("c-ares", lambda: asyncio.run(with_c_ares())), ("dnspython", with_dnspython)]:
    show(name, ask)

cut = DNSRecord.truncate


def keeping_the_question(record):
    short = cut(record)
    short.add_question(*record.questions)
    return short


DNSRecord.truncate = keeping_the_question
for name, ask in [("c-ares", lambda: asyncio.run(with_c_ares())), ("dnspython", with_dnspython)]:
    show(f"{name}, question kept", ask)
P
ip netns exec "$space" venv/bin/python ask.py | tee seen
cmp - seen <<'END'
truncate(): TC 1, questions 0
c-ares: asked udp: no answer
dnspython: asked udp: no answer
c-ares, question kept: asked udp tcp: 60 addresses
dnspython, question kept: asked udp tcp: 60 addresses
END

#!/usr/bin/env bash
# Four libraries find the IPv4 address 192.0.2.7 in the network ::/0, and three of them ::1 in 0.0.0.0/0.
#
# Net::CIDR 0.21 and NetAddr::IP 4.079 of Debian 12, iptools 0.7.0 and ipset-c 0.2.1 from PyPI. An address of one family should not
# be in a network of the other, as in Python's ipaddress: ::/0 means all of IPv6. The four libraries keep both families in one space
# of 128 bits: Net::CIDR has IPv4 at ::ffff:0:0/96, and the others at ::/96. A rule for all of IPv6 is then a rule for IPv4 too, and
# ipset-c loses the network ::192.0.2.0/120 in a set that has 192.0.2.0/24.
#
# Output seen:
#   192.0.2.7 in ::/0: ipaddress no, iptools yes, ipset-c yes
#   192.0.2.7 in ::/96: ipaddress no, iptools yes, ipset-c yes
#   192.0.2.7 in ::ffff:0:0/96: ipaddress no, iptools no, ipset-c no
#   ::1 in 0.0.0.0/0: ipaddress no, iptools yes, ipset-c yes
#   ::192.0.2.7 in 192.0.2.0/24: ipaddress no, iptools yes, ipset-c yes
#   set of ipset-c: 192.0.2.0/24
#   192.0.2.7 in ::/0: Net::CIDR yes, NetAddr::IP yes
#   192.0.2.7 in ::/96: Net::CIDR no, NetAddr::IP yes
#   192.0.2.7 in ::ffff:0:0/96: Net::CIDR yes, NetAddr::IP no
#   ::1 in 0.0.0.0/0: Net::CIDR no, NetAddr::IP yes
#   ::192.0.2.7 in 192.0.2.0/24: Net::CIDR no, NetAddr::IP yes
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download -qq libnet-cidr-perl=0.21-2 libnetaddr-ip-perl=4.079+dfsg-2+b1
for package in *.deb; do dpkg-deb -x "$package" root; done
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check iptools==0.7.0 ipset-c==0.2.1
printf '%s\n' "192.0.2.7 ::/0" "192.0.2.7 ::/96" "192.0.2.7 ::ffff:0:0/96" "::1 0.0.0.0/0" "::192.0.2.7 192.0.2.0/24" >questions
cat >ask.py <<'P'
from ipaddress import ip_address, ip_network

from ipset_c import IPSet
from iptools import IpRange

for line in open("questions"):
    address, network = line.split()
    answers = {
        "ipaddress": ip_address(address) in ip_network(network),
        "iptools": address in IpRange(network),
        "ipset-c": IPSet([network]).isContainsCidr(address),
    }
    print(f"{address} in {network}: " + ", ".join(f"{name} {'yes' if answer else 'no'}" for name, answer in answers.items()))
print("set of ipset-c:", *IPSet(["192.0.2.0/24", "::192.0.2.0/120"]).getCidrs())
P
cat >ask.pl <<'P'
use strict;
use warnings;
use Net::CIDR;
use NetAddr::IP;
while (<>) {
    my ($address, $network) = split;
    my $cidr = Net::CIDR::cidrlookup($address, $network) ? "yes" : "no";
    my $ip = NetAddr::IP->new($network)->contains(NetAddr::IP->new($address)) ? "yes" : "no";
    print "$address in $network: Net::CIDR $cidr, NetAddr::IP $ip\n";
}
P
{
  venv/bin/python ask.py
  perl -Iroot/usr/share/perl5 -Iroot/usr/lib/x86_64-linux-gnu/perl5/5.36 ask.pl questions
} | tee seen
cmp - seen <<'END'
192.0.2.7 in ::/0: ipaddress no, iptools yes, ipset-c yes
192.0.2.7 in ::/96: ipaddress no, iptools yes, ipset-c yes
192.0.2.7 in ::ffff:0:0/96: ipaddress no, iptools no, ipset-c no
::1 in 0.0.0.0/0: ipaddress no, iptools yes, ipset-c yes
::192.0.2.7 in 192.0.2.0/24: ipaddress no, iptools yes, ipset-c yes
set of ipset-c: 192.0.2.0/24
192.0.2.7 in ::/0: Net::CIDR yes, NetAddr::IP yes
192.0.2.7 in ::/96: Net::CIDR no, NetAddr::IP yes
192.0.2.7 in ::ffff:0:0/96: Net::CIDR yes, NetAddr::IP no
::1 in 0.0.0.0/0: Net::CIDR no, NetAddr::IP yes
::192.0.2.7 in 192.0.2.0/24: Net::CIDR no, NetAddr::IP yes
END

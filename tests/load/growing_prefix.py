#!/usr/bin/env python3
"""Compares nested limits of IPv6 networks with a prefix that grows under abuse.

    growing_prefix.py                                prints a table
    growing_prefix.py --captures FOLDER              also writes each scenario as a capture, and the configuration
    limiter replay FOLDER/SCENARIO.pcap --config FOLDER/nested.toml      gives the table's figures for `nested`

All policies have the same bucket (GCRA, as limiter's). `growing` has one for each /64 at first. A /56 has only one,
with the rate of a /64, while more than 4 of its /64 were refused within 10 seconds; a /48 likewise, by its /56.
"""

import argparse
import ipaddress
import os
import random
import struct
from collections import defaultdict

RATE, BURST = 10.0, 20
# Rates of /64, /56 and /48.
NESTED = {64: 1, 56: 4, 48: 16}
MANY, MEMORY = 4, 10.0
SECONDS = 60
SITE = int(ipaddress.IPv6Address("2001:db8:1::")) >> 64
OTHER = int(ipaddress.IPv6Address("2001:db8:2::")) >> 64


class Buckets:
    """Buckets of one rate."""

    def __init__(self, times):
        self.cost = 1 / (RATE * times)
        self.tau = BURST * times * self.cost
        self.tat = {}

    def next(self, key, now):
        """The new TAT; none if the packet is over the limit."""
        new = max(self.tat.get(key, 0), now) + self.cost
        return new if new - now <= self.tau + 1e-9 else None


class Nested:
    """A packet must satisfy the limits of all lengths, and is charged to all or none."""

    def __init__(self, lengths):
        self.limits = {length: Buckets(NESTED[length]) for length in lengths}

    def admits(self, network, now):
        new = []
        for length, buckets in self.limits.items():
            key = network >> (64 - length)
            tat = buckets.next(key, now)
            if tat is None:
                return False
            new.append((buckets.tat, key, tat))
        for tats, key, tat in new:
            tats[key] = tat
        return True


class Growing:
    """One bucket for the widest prefix that has grown around the source."""

    def __init__(self):
        self.buckets = Buckets(1)
        # When each part of a /56 and of a /48 was refused last.
        self.refused = defaultdict(dict)

    def has_grown(self, key, now):
        parts = self.refused[key]
        for part in [part for part, time in parts.items() if now - time > MEMORY]:
            del parts[part]
        return len(parts) > MANY

    def admits(self, network, now):
        keys = [(length, network >> (64 - length)) for length in (48, 56, 64)]
        grown = [key for key in keys[:2] if self.has_grown(key, now)]
        key = grown[0] if grown else keys[2]
        tat = self.buckets.next(key, now)
        if tat is not None:
            self.buckets.tat[key] = tat
            return True
        for wider, part in zip(keys, keys[1:]):
            self.refused[wider][part] = now
        return False


def regular(rate, networks, rng):
    """Packets of each of these /64, at this rate, beginning at different times."""
    for network in networks:
        time = rng.random() / rate
        while time < SECONDS:
            yield time, network
            time += 1 / rate


def rotating(rate, bits, rng):
    """Packets from a new /64 each, in a network of so many bits of them."""
    for number in range(int(rate * SECONDS)):
        yield number / rate, SITE | rng.getrandbits(bits)


def scenarios():
    rng = random.Random(48)
    neighbours = {
        "same /56": [SITE | 0x80 | i for i in range(8)],
        "same /48": [SITE | i << 8 for i in range(8, 16)],
        "other /48": [OTHER | i << 8 for i in range(8)],
    }
    attacks = {
        "none": [],
        "one": list(regular(1000, [SITE], rng)),
        "rotating-56": list(rotating(1000, 8, rng)),
        "fast-56": list(rotating(5000, 8, rng)),
        "rotating-48": list(rotating(5000, 16, rng)),
    }
    for name, attack in attacks.items():
        packets = [(time, network, "attack") for time, network in attack]
        for who, networks in neighbours.items():
            packets += [(*packet, who) for packet in regular(2, networks, rng)]
        yield name, packets
    # A site with many clients, each below its rate.
    site = [SITE | i << 8 | part for i in range(25) for part in range(4)]
    yield "large-site", [(*packet, "site") for packet in regular(5, site, rng)]


def capture(path, packets):
    """Writes the packets as UDP to port 9."""
    target = ipaddress.IPv6Address("2001:db8:ffff::1").packed
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 96, 1))
        for time, network, _ in packets:
            source = (network << 64 | 1).to_bytes(16, "big")
            udp = struct.pack(">HHHH", 9, 9, 8, 0)
            frame = bytes(12) + b"\x86\xdd" + struct.pack(">IHBB", 6 << 28, 8, 17, 64)
            frame += source + target + udp
            # Long after the epoch, as captures are.
            nanoseconds = 1_700_000_000_000_000_000 + round(time * 1e9)
            head = (*divmod(nanoseconds, 10**9), len(frame), len(frame))
            file.write(struct.pack("<IIII", *head) + frame)


def configuration(path):
    with open(path, "w") as file:
        file.write("interfaces = [\"eth0\"]\nnew_sources = \"none\"\n")
        for length, times in NESTED.items():
            file.write(f"[[limit]]\nname = \"n{length}\"\nkey = \"/32,/{length}\"\n")
            file.write(f"rate = {int(RATE * times)}\nburst = {BURST * times}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--captures", metavar="FOLDER")
    folder = parser.parse_args().captures
    if folder:
        os.makedirs(folder, exist_ok=True)
        configuration(os.path.join(folder, "nested.toml"))
    print("admitted a second of the attack (or the site); share of each group's packets that is refused")
    for name, packets in scenarios():
        packets.sort()
        if folder:
            capture(os.path.join(folder, f"{name}.pcap"), packets)
        policies = {"only /64": Nested([64]), "nested": Nested([64, 56, 48]), "growing": Growing()}
        for policy, state in policies.items():
            count = defaultdict(lambda: [0, 0])
            for time, network, who in packets:
                count[who][state.admits(network, 1 + time)] += 1
            admitted = sum(passed for _, passed in count.values())
            line = f"{name:12} {policy:9} passed {admitted:7} of {len(packets):7}"
            for who, (refused, passed) in count.items():
                if who in ("attack", "site"):
                    line += f"  {who} {passed / SECONDS:7.1f}/s"
                if who != "attack":
                    line += f"  {who} {100 * refused / (refused + passed):5.1f} %"
            print(line)


if __name__ == "__main__":
    main()

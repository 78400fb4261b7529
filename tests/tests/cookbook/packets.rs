//! The packets that each recipe must pass, and those that it must hold.

/// The expected verdict on packets. Buckets are full at first.
#[derive(Clone, Copy, Debug)]
pub enum Expected {
    /// Packets per second, and a burst of packets.
    Packets(f64, f64),
    /// Bytes per second, and a burst of bytes.
    Bytes(f64, f64),
    /// This number of packets passes.
    Pass(usize),
    Drop,
}

use Expected::{Bytes, Drop, Packets, Pass};

pub const WEB: &str = "web";
pub const SSH: &str = "ssh";
pub const SYN_FLOOD: &str = "syn-flood";
pub const MINECRAFT: &str = "minecraft";

/// Packets for each recipe: kind, source, port, payload. `KIND:PORT` has a source port. The payload is a number of bytes,
/// or bytes in hexadecimal behind `x`, or both as in `x04000000+1400`. `*` stands for 60 different numbers.
pub const RECIPES: [(&str, &[(&str, Expected)]); 12] = [
    (
        "dns-amplification",
        &[
            ("udp:53 10.1.*.1 40000 1200", Bytes(10e6 / 8.0, 524_288.0)),
            ("udp:123 10.1.*.1 40000 440", Bytes(1e6 / 8.0, 65_536.0)),
            ("udp:389 10.1.*.1 40000 1400", Bytes(1e6 / 8.0, 65_536.0)),
            ("udp:1900 10.1.*.1 40000 300", Bytes(1e6 / 8.0, 65_536.0)),
            ("udp:11211 10.1.*.1 40000 1400", Bytes(1e6 / 8.0, 65_536.0)),
            (
                "udp:19 2001:db8:9:*::1 40000 500",
                Bytes(1e6 / 8.0, 65_536.0),
            ),
            ("udp:161 10.1.*.1 40000 1000", Bytes(1e6 / 8.0, 65_536.0)),
            ("fragment 10.2.*.1 9", Bytes(5e6 / 8.0, 262_144.0)),
            ("fragment 192.0.2.123 9", Pass(300)),
            ("udp:123 192.0.2.123 40000 48", Pass(300)),
            ("udp:53 2001:db8:1::53 40000 400", Pass(300)),
            (
                "udp:53 192.0.2.53 40000 1200",
                Bytes(20e6 / 8.0, 1_048_576.0),
            ),
            ("udp:40000 10.3.0.1 53 60", Pass(300)),
            ("data:443 10.1.11.1 40000", Pass(300)),
        ],
    ),
    (
        SYN_FLOOD,
        &[
            ("syn 10.0.0.1 80", Packets(50.0, 200.0)),
            ("syn 10.1.0.* 9999", Packets(500.0, 2_000.0)),
            ("syn 2001:db8:5:*::1 443", Packets(500.0, 2_000.0)),
            ("syn-ack:443 10.2.*.1 40000", Packets(1_000.0, 2_000.0)),
            ("data 10.3.0.1 80", Packets(1_000.0, 2_000.0)),
            ("syn 10.4.0.1 80", Pass(100)),
            ("syn 192.0.2.7 80", Pass(2_500)),
            ("udp 10.0.0.1 80", Pass(300)),
        ],
    ),
    (
        "dns-resolver",
        &[
            ("udp 10.0.0.1 53", Packets(20.0, 40.0)),
            ("udp 2001:db8:2::1 53", Packets(20.0, 40.0)),
            ("udp 192.0.2.1 53", Packets(500.0, 2_000.0)),
            ("udp 2001:db8:1::1 53", Packets(500.0, 2_000.0)),
            ("data 10.0.0.2 53", Packets(20.0, 40.0)),
            ("udp:53 10.0.0.3 40000", Pass(300)),
            ("fragment 10.0.0.4 53", Packets(10.0, 20.0)),
            ("fragment 192.0.2.4 53", Pass(300)),
        ],
    ),
    (
        "dns-server",
        &[
            ("udp 10.0.0.1 53 x123401000001", Packets(50.0, 200.0)),
            ("udp 10.1.0.* 53 x123401000001", Packets(500.0, 1_000.0)),
            (
                "udp 2001:db8:5:*::1 53 x123401000001",
                Packets(500.0, 1_000.0),
            ),
            (
                "udp 198.51.100.7 53 x123401000001",
                Packets(2_000.0, 4_000.0),
            ),
            ("udp 192.0.2.54 53 x123401000001", Packets(2_000.0, 4_000.0)),
            ("udp:53 10.2.*.1 53 x123481800001", Packets(10.0, 50.0)),
            ("udp 10.2.11.1 53 x123401000001", Pass(100)),
            ("syn 10.3.0.1 53", Packets(10.0, 50.0)),
            ("syn 2001:db8:1::54 53", Pass(300)),
            ("data 10.3.0.1 53", Pass(300)),
            ("udp:53 10.4.0.1 40000 x123481800001", Pass(300)),
            ("udp 10.5.0.1 9", Packets(2_000.0, 4_000.0)),
        ],
    ),
    (
        WEB,
        &[
            ("syn 10.0.80.1 80", Packets(20.0, 100.0)),
            ("syn 10.0.43.1 443", Packets(20.0, 100.0)),
            ("syn 10.1.0.* 443", Packets(200.0, 1_000.0)),
            ("syn 2001:db8:5:*::1 443", Packets(200.0, 1_000.0)),
            ("data 10.2.0.1 443", Packets(2_000.0, 4_000.0)),
            ("udp 10.3.0.1 443 1400", Bytes(20e6 / 8.0, 1_048_576.0)),
            ("syn 192.0.2.7 443", Pass(300)),
            ("udp 10.4.0.1 53", Pass(300)),
            ("udp 10.5.0.1 80 1400", Bytes(20e6 / 8.0, 1_048_576.0)),
            ("data 10.6.0.1 8080", Packets(500.0, 1_000.0)),
            ("udp 10.7.0.1 53", Packets(500.0, 1_000.0)),
        ],
    ),
    (
        "quic",
        &[
            ("udp 10.0.0.1 443 xc000000001+1200", Packets(50.0, 200.0)),
            ("udp 10.1.0.* 443 xc000000001", Packets(500.0, 2_000.0)),
            (
                "udp 2001:db8:5:*::1 443 xe000000001",
                Packets(500.0, 2_000.0),
            ),
            ("udp 10.2.0.1 443 x40+1400", Bytes(50e6 / 8.0, 2_097_152.0)),
            ("udp:53 10.3.*.1 443 500", Packets(10.0, 50.0)),
            ("udp 10.4.0.1 443 xc000000001+1200", Pass(100)),
            ("udp 10.4.0.1 443 x40+1200", Pass(1_000)),
            ("syn 10.5.0.1 443", Pass(300)),
            ("udp 10.5.0.1 53 xc000000001", Pass(300)),
            ("udp 10.6.0.1 53", Packets(500.0, 1_000.0)),
            ("data 10.7.0.1 443", Packets(500.0, 1_000.0)),
        ],
    ),
    (
        SSH,
        &[
            ("syn 10.0.0.1 22", Packets(5.0 / 60.0, 5.0)),
            ("udp 10.0.0.2 9", Packets(500.0, 1_000.0)),
            // The smaller limit applies only to packets that open a connection.
            ("data 10.0.0.3 22", Packets(500.0, 1_000.0)),
            ("syn 198.51.100.7 22", Pass(2_500)),
            ("syn 203.0.113.7 22", Pass(2_500)),
            ("syn 203.0.113.8 22", Drop),
        ],
    ),
    (
        "source-engine",
        &[
            ("udp 10.0.1.1 27015 xffffffff54+25", Packets(5.0, 30.0)),
            ("udp 10.0.2.1 27016 xffffffff55+9", Packets(5.0, 30.0)),
            ("udp 10.0.3.1 27017 xffffffff56+9", Packets(5.0, 30.0)),
            ("udp 10.0.4.1 27018 xffffffff57", Packets(5.0, 30.0)),
            ("udp 10.1.*.1 27020 xffffffff54", Packets(500.0, 1_000.0)),
            ("udp 10.0.5.1 27015 xffffffff71", Packets(20.0, 60.0)),
            ("udp 10.0.6.1 27015 xffffffff6b", Packets(20.0, 60.0)),
            ("udp 10.0.7.1 27015 xffffffff54", Pass(20)),
            ("udp 10.1.11.1 27020", Pass(300)),
            ("fragment 10.0.8.1 27015", Packets(5.0, 30.0)),
            ("udp 10.0.15.1 27015", Packets(200.0, 400.0)),
            ("udp 10.0.30.1 27030", Packets(200.0, 400.0)),
            ("udp 10.2.0.* 27015", Packets(4_000.0, 8_000.0)),
            ("udp 2001:db8:1:*::1 27015", Packets(4_000.0, 8_000.0)),
            ("udp 10.3.0.1 9 1000", Bytes(2e6 / 8.0, 131_072.0)),
            ("data 10.3.0.1 27015", Pass(300)),
            ("data 10.4.0.1 27015", Packets(500.0, 1_000.0)),
        ],
    ),
    (
        MINECRAFT,
        &[
            ("syn 10.0.0.1 25565", Packets(2.0, 20.0)),
            ("syn 10.1.0.* 25565", Packets(20.0, 200.0)),
            ("data 10.2.0.1 25565", Packets(500.0, 1_000.0)),
            ("udp 10.3.0.1 25565 xfefd09+7", Packets(2.0, 10.0)),
            ("udp 10.4.0.1 19132 x01+33", Packets(10.0, 40.0)),
            ("udp 10.4.0.2 19132 x05+1400", Packets(10.0, 40.0)),
            ("udp 2001:db8:4::1 19133 x01+33", Packets(10.0, 40.0)),
            ("udp 10.5.0.1 19132 x84+100", Packets(300.0, 600.0)),
            ("udp 2001:db8:5::1 19133 x84+100", Packets(300.0, 600.0)),
            ("udp 10.4.0.1 19132 xc0", Pass(300)),
            ("syn 192.0.2.7 25565", Pass(300)),
            ("udp 10.6.0.1 25565", Pass(300)),
            ("udp 10.7.0.1 25565", Packets(500.0, 1_000.0)),
            ("data 10.8.0.1 22", Packets(500.0, 1_000.0)),
        ],
    ),
    (
        "voip",
        &[
            (
                "udp 10.0.0.1 5060 x5245474953544552+400",
                Packets(2.0, 20.0),
            ),
            ("udp 10.1.0.1 5060 x494e56495445+400", Packets(20.0, 100.0)),
            ("syn 10.2.0.1 5061", Packets(20.0, 100.0)),
            (
                "udp 198.51.100.7 5060 x5245474953544552",
                Packets(500.0, 2_000.0),
            ),
            ("udp 10.3.0.1 10000 172", Packets(200.0, 400.0)),
            ("udp 10.3.0.1 10002 172", Pass(300)),
            ("udp 10.4.0.1 101* 172", Packets(2_000.0, 4_000.0)),
            ("udp 198.51.100.8 101* 172", Pass(6_000)),
            ("udp 10.3.0.1 9", Pass(300)),
            ("udp 10.5.0.1 9", Packets(500.0, 1_000.0)),
            ("data 10.6.0.1 10000", Packets(500.0, 1_000.0)),
        ],
    ),
    (
        "wireguard",
        &[
            ("udp 10.0.0.1 51820 x01000000+148", Packets(5.0, 40.0)),
            ("udp 10.1.*.1 51820 x01000000+148", Packets(500.0, 1_000.0)),
            ("udp 198.51.100.7 51820 x01000000+148", Pass(40)),
            ("udp 10.0.0.1 51820 x02000000+92", Pass(300)),
            ("udp 10.2.0.1 51820 x04000001+100", Packets(10.0, 20.0)),
            ("udp 10.2.0.2 51820 2", Packets(10.0, 20.0)),
            (
                "udp 10.3.0.1 51820 x04000000+1400",
                Bytes(100e6 / 8.0, 2_097_152.0),
            ),
            ("udp 10.4.0.1 9 x01000000", Pass(300)),
            ("udp 10.5.0.1 9", Packets(500.0, 1_000.0)),
            ("syn 10.6.0.1 51820", Packets(500.0, 1_000.0)),
        ],
    ),
    (
        "ipv6",
        &[
            ("udp 2001:db8:1:1::* 9", Packets(1_000.0, 2_000.0)),
            ("neighbour 2001:db8:1:1::1", Packets(100.0, 200.0)),
            ("udp 2001:db8:2:*::1 9", Packets(2_000.0, 4_000.0)),
            ("udp 2001:db8:4:*00::1 9", Packets(4_000.0, 8_000.0)),
            ("ping 2001:db8:3::1", Packets(10.0, 20.0)),
            ("too-big 2001:db8:3::1", Pass(300)),
            ("udp 10.0.0.1 9", Pass(300)),
        ],
    ),
];

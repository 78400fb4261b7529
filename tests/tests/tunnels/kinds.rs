//! Kinds of tunnels, and the commands that make them.

/// A kind of tunnel. Its interface is `t0` on both hosts.
pub struct Kind {
    /// Its name for people.
    pub name: &'static str,
    /// The IP versions that it carries.
    pub carries: &'static [u8],
    /// The commands that make it on a host. The first one fails if the kernel lacks the kind. Behind ` < ` stands what
    /// the command reads.
    pub made_by: fn(&Ends) -> Vec<String>,
}

/// The addresses outside of the tunnel, from the view of one host.
pub struct Ends {
    /// The host's own ones: IPv4, IPv6.
    pub own: [&'static str; 2],
    /// The other host's.
    pub peer: [&'static str; 2],
    /// The number that distinguishes packets that this host sends, and that of packets that it receives.
    pub numbers: [u8; 2],
}

impl Ends {
    /// The words `local` and `remote` of `ip link` with the IPv4 addresses, or with the IPv6 addresses.
    fn of(&self, version: usize) -> String {
        let [own, peer] = [self.own, self.peer].map(|addresses| addresses[version]);
        format!("local {own} remote {peer}")
    }
}

const V4: usize = 0;
const V6: usize = 1;
const ONLY_V4: &[u8] = &[4];
const BOTH: &[u8] = &[4, 6];

/// The commands that encrypt both ways between two addresses. `state`: more words of the states; `policy`: of the
/// policies.
fn ipsec([own, peer]: [&str; 2], numbers: [u8; 2], state: &str, policy: &str) -> Vec<String> {
    let key: String = (0..20).map(|byte| format!("{byte:02x}")).collect();
    let aead = format!("aead rfc4106(gcm(aes)) 0x{key} 128");
    let [sent, taken] = numbers;
    let mut lines = Vec::new();
    for (dir, from, destination, number) in [("out", own, peer, sent), ("in", peer, own, taken)] {
        let esp = format!("src {from} dst {destination} proto esp");
        lines.push(format!(
            "ip xfrm state add {esp} spi {number} reqid 7 mode tunnel flag af-unspec {aead} {state}"
        ));
        for all in ["0.0.0.0/0", "::/0"] {
            lines.push(format!(
                "ip xfrm policy add src {all} dst {all} dir {dir} {policy} tmpl {esp} reqid 7 mode tunnel"
            ));
        }
    }
    lines
        .iter_mut()
        .for_each(|line| line.truncate(line.trim_end().len()));
    lines
}

/// A tunnel that one command makes.
fn made_of(line: String) -> Vec<String> {
    vec![format!("ip link add t0 type {line}")]
}

pub const XFRM: Kind = Kind {
    name: "IPsec, xfrm",
    carries: BOTH,
    made_by: |ends| {
        let mut lines = made_of("xfrm dev eth0 if_id 7".to_owned());
        let addresses = [ends.own[V4], ends.peer[V4]];
        lines.extend(ipsec(addresses, ends.numbers, "if_id 7", "if_id 7"));
        lines
    },
};

/// The encrypted packets come through a tunnel without an Ethernet header.
pub const XFRM_IN_IPIP: Kind = Kind {
    name: "IPsec, xfrm, in ipip",
    carries: BOTH,
    made_by: |ends| {
        let [sent, taken] = ends.numbers;
        let [own, peer] = [sent, taken].map(|number| format!("198.51.100.{number}"));
        let mut lines = made_of("xfrm dev eth0 if_id 7".to_owned());
        lines.extend([
            format!("ip link add t1 type ipip {}", ends.of(V4)),
            format!("ip address add {own} peer {peer} dev t1"),
            "ip link set t1 up".to_owned(),
        ]);
        lines.extend(ipsec([&own, &peer], ends.numbers, "if_id 7", "if_id 7"));
        lines
    },
};

pub const VTI: Kind = Kind {
    name: "IPsec, vti",
    carries: BOTH,
    made_by: |ends| {
        let mut lines = made_of(format!("vti {} key 7", ends.of(V4)));
        let addresses = [ends.own[V4], ends.peer[V4]];
        lines.extend(ipsec(addresses, ends.numbers, "", "mark 7"));
        lines
    },
};

pub const VTI6: Kind = Kind {
    name: "IPsec, vti6",
    carries: BOTH,
    made_by: |ends| {
        let mut lines = made_of(format!("vti6 {} key 7", ends.of(V6)));
        let addresses = [ends.own[V6], ends.peer[V6]];
        lines.extend(ipsec(addresses, ends.numbers, "", "mark 7"));
        lines
    },
};

pub const IPIP: Kind = Kind {
    name: "ipip",
    carries: ONLY_V4,
    made_by: |ends| made_of(format!("ipip {}", ends.of(V4))),
};

pub const SIT: Kind = Kind {
    name: "sit",
    carries: BOTH,
    made_by: |ends| made_of(format!("sit mode any {}", ends.of(V4))),
};

pub const IP6TNL: Kind = Kind {
    name: "ip6tnl",
    carries: BOTH,
    made_by: |ends| made_of(format!("ip6tnl mode any {}", ends.of(V6))),
};

pub const GRE: Kind = Kind {
    name: "gre",
    carries: BOTH,
    made_by: |ends| made_of(format!("gre {}", ends.of(V4))),
};

/// With all fields that the GRE header can have.
pub const GRE_FIELDS: Kind = Kind {
    name: "gre with key, checksum and sequence numbers",
    carries: BOTH,
    made_by: |ends| made_of(format!("gre {} key 7 csum seq", ends.of(V4))),
};

pub const IP6GRE: Kind = Kind {
    name: "ip6gre",
    carries: BOTH,
    made_by: |ends| made_of(format!("ip6gre {}", ends.of(V6))),
};

/// The server has no peer, and takes packets of any.
pub const GRE_LISTENING: Kind = Kind {
    name: "gre without a peer",
    carries: BOTH,
    made_by: |ends| match ends.numbers {
        [1, _] => made_of(format!("gre local {}", ends.own[V4])),
        _ => made_of(format!("gre {}", ends.of(V4))),
    },
};

pub const IP6GRE_LISTENING: Kind = Kind {
    name: "ip6gre without a peer",
    carries: BOTH,
    made_by: |ends| match ends.numbers {
        [1, _] => made_of(format!("ip6gre local {}", ends.own[V6])),
        _ => made_of(format!("ip6gre {}", ends.of(V6))),
    },
};

pub const FOU: Kind = Kind {
    name: "ipip in UDP, fou",
    carries: ONLY_V4,
    made_by: |ends| {
        let encap = "encap fou encap-sport auto encap-dport 5555";
        vec![
            "ip fou add port 5555 ipproto 4".to_owned(),
            format!("ip link add t0 type ipip {} {encap}", ends.of(V4)),
        ]
    },
};

pub const GUE: Kind = Kind {
    name: "sit in UDP, gue",
    carries: BOTH,
    made_by: |ends| {
        let encap = "encap gue encap-sport auto encap-dport 5556";
        vec![
            "ip fou add port 5556 gue".to_owned(),
            format!("ip link add t0 type sit mode any {} {encap}", ends.of(V4)),
        ]
    },
};

/// The secret keys of the hosts, and their public keys.
const KEYS: [[&str; 2]; 2] = [
    [
        "AAEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAUE=",
        "pOCSkrZRwni5dyxWn1+puxPZBrRqtoyd+dwrRAn4ogk=",
    ],
    [
        "AAICAgICAgICAgICAgICAgICAgICAgICAgICAgICAkI=",
        "zo060cy2M+x7cMF4FKXHbs0CloUFDTRHRboFhw5YfVk=",
    ],
];

pub const WIREGUARD: Kind = Kind {
    name: "WireGuard",
    carries: BOTH,
    made_by: |ends| {
        let [own, peer] = ends.numbers.map(|number| KEYS[usize::from(number) - 1]);
        let ([secret, _], [_, public]) = (own, peer);
        let endpoint = ends.peer[V4];
        let mut lines = made_of("wireguard".to_owned());
        lines.push(format!(
            "wg set t0 listen-port 51820 private-key /proc/self/fd/0 peer {public} endpoint {endpoint}:51820 allowed-ips 0.0.0.0/0,::/0 < {secret}"
        ));
        lines
    },
};

/// Each host's end is a process; the two pass packets on to each other.
pub const TUN: Kind = Kind {
    name: "tun",
    carries: BOTH,
    made_by: |_| Vec::new(),
};

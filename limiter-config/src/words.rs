//! The words of settings: each has a few values with names, in files and on the command line.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::reader::{DeValue, Read, Scalar, Section, Setting, array, quoted, variant};

/// The hosts that charge a limit's buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// This host.
    #[default]
    Host,
    /// All hosts of the fleet.
    Fleet,
}

/// A way in which a new source that is refused may prove its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Proof {
    /// In no way.
    None,
    /// By a TCP handshake with a SYN cookie, which the program sends for a listener of the host.
    SynCookie,
    /// By asking again over TCP after a truncated answer, for questions of DNS over UDP.
    DnsTc,
    /// By returning a challenge, for Valve's server queries over UDP.
    A2s,
}

/// The ways in which a new source that is refused may prove its address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredProofs", into = "StoredProofs")]
pub struct Proofs {
    /// By [`Proof::SynCookie`].
    pub syn_cookie: bool,
    /// By [`Proof::DnsTc`].
    pub dns_tc: bool,
    /// By [`Proof::A2s`].
    pub a2s: bool,
}

/// [`Proofs`] in a record. One way is a text, as in records of earlier builds.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum StoredProofs {
    One(Proof),
    Several(Vec<Proof>),
}

impl From<StoredProofs> for Proofs {
    fn from(stored: StoredProofs) -> Self {
        match stored {
            StoredProofs::One(proof) => Self::new(&[proof]),
            StoredProofs::Several(proofs) => Self::new(&proofs),
        }
    }
}

impl From<Proofs> for StoredProofs {
    fn from(proofs: Proofs) -> Self {
        match proofs.ways()[..] {
            [] => Self::One(Proof::None),
            [proof] => Self::One(proof),
            ref several => Self::Several(several.to_vec()),
        }
    }
}

impl Proofs {
    /// All ways in `named`.
    pub fn new(named: &[Proof]) -> Self {
        let has = |proof| named.contains(&proof);
        Self {
            syn_cookie: has(Proof::SynCookie),
            dns_tc: has(Proof::DnsTc),
            a2s: has(Proof::A2s),
        }
    }

    /// The ways, without [`Proof::None`].
    pub fn ways(self) -> Vec<Proof> {
        let all = [
            (Proof::SynCookie, self.syn_cookie),
            (Proof::DnsTc, self.dns_tc),
            (Proof::A2s, self.a2s),
        ];
        let used = all.into_iter().filter(|(_, is_used)| *is_used);
        used.map(|(proof, _)| proof).collect()
    }

    /// Returns true if there is a way.
    pub fn any(self) -> bool {
        self != Self::default()
    }
}

impl fmt::Display for Proofs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.ways()[..] {
            [] => Proof::None.fmt(f),
            ways => f.write_str(
                &ways
                    .iter()
                    .map(Proof::to_string)
                    .collect::<Vec<_>>()
                    .join(","),
            ),
        }
    }
}

impl Setting for Proofs {
    fn read(section: &mut Section, key: &str) -> Option<Self> {
        let named = section.each(key, variant)?;
        Some(Self::new(&named))
    }

    fn written(&self) -> Option<String> {
        Some(match &self.ways()[..] {
            [] | [_] => quoted(self),
            ways => array(ways.iter().map(quoted)),
        })
    }

    fn words(&self) -> String {
        self.to_string()
    }
}

/// The way a bucket refills.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// All the time.
    #[default]
    TokenBucket,
    /// At the beginning of each period; unused tokens are kept, up to the burst.
    FixedWindow,
}

/// A kind of packets that may be exempt from the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Exemption {
    /// Packets of connections of the host's own sockets.
    Established,
    /// ARP, neighbour discovery, DHCP and group membership, which have limits of their own.
    Control,
    /// VRRP, which has a limit of its own.
    Vrrp,
    /// OSPF, which has a limit of its own.
    Ospf,
    /// BFD, which has a limit of its own.
    Bfd,
}

/// The packets that are exempt from the limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exempt {
    /// True if packets of connections of the host's own sockets pass instead of being dropped.
    pub established: bool,
    /// True if ARP, neighbour discovery, DHCP and group membership have their own limits.
    pub control: bool,
    /// True if VRRP has its own limit.
    #[serde(default)]
    pub vrrp: bool,
    /// True if OSPF has its own limit.
    #[serde(default)]
    pub ospf: bool,
    /// True if BFD has its own limit.
    #[serde(default)]
    pub bfd: bool,
}

impl Exempt {
    /// Exempts all kinds in `named`.
    pub fn new(named: &[Exemption]) -> Self {
        let has = |kind| named.contains(&kind);
        Self {
            established: has(Exemption::Established),
            control: has(Exemption::Control),
            vrrp: has(Exemption::Vrrp),
            ospf: has(Exemption::Ospf),
            bfd: has(Exemption::Bfd),
        }
    }

    /// The names of the exempt kinds, as in files.
    pub fn names(self) -> Vec<&'static str> {
        let all = [
            ("established", self.established),
            ("control", self.control),
            ("vrrp", self.vrrp),
            ("ospf", self.ospf),
            ("bfd", self.bfd),
        ];
        let named = all.into_iter().filter(|(_, is_exempt)| *is_exempt);
        named.map(|(name, _)| name).collect()
    }

    /// The kinds that are exempt here and in `other`.
    pub fn and(self, other: Self) -> Self {
        Self {
            established: self.established && other.established,
            control: self.control && other.control,
            vrrp: self.vrrp && other.vrrp,
            ospf: self.ospf && other.ospf,
            bfd: self.bfd && other.bfd,
        }
    }

    /// Returns true if VRRP, OSPF or BFD is exempt.
    pub fn has_routing(self) -> bool {
        self.vrrp || self.ospf || self.bfd
    }

    /// Returns true if `[control]` has a limit on what is exempt.
    pub fn has_control(self) -> bool {
        self.control || self.has_routing()
    }
}

impl Setting for Exempt {
    fn read(section: &mut Section, key: &str) -> Option<Self> {
        let named = section.each(key, variant)?;
        Some(Self::new(&named))
    }

    fn written(&self) -> Option<String> {
        Some(array(self.names().into_iter().map(quoted)))
    }

    fn words(&self) -> String {
        match self.names().join(",") {
            names if names.is_empty() => "nothing".to_owned(),
            names => names,
        }
    }
}

/// Treatment of malformed IP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Malformed {
    /// Dropped and counted.
    #[default]
    Drop,
    /// Passed and counted.
    Pass,
}

/// The packets of an interface that limits are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Those that arrive.
    #[default]
    In,
    /// Those that the interface sends.
    Out,
}

/// The wanted mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Native if the driver supports it, otherwise generic. tc (Linux 6.6) on a veth or tap unless a setting needs XDP,
    /// for packets that the interface sends, and for those without an Ethernet header.
    #[default]
    Auto,
    /// In the driver, before the kernel has spent anything on the packet.
    Native,
    /// XDP in the network stack: works everywhere, and is several times slower.
    Generic,
    /// Native if the driver supports it, otherwise generic.
    Xdp,
    /// In the network stack, without XDP.
    Tc,
}

/// Reads and prints values by their names in files and on the command line.
macro_rules! shown_by_name {
    ($($type:ty),+) => {$(
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let value = self.to_possible_value();
                f.write_str(value.as_ref().map_or("", |value| value.get_name()))
            }
        }

        impl Scalar for $type {
            fn read_scalar(value: &DeValue) -> Read<Self> {
                variant(value)
            }

            fn scalar(&self) -> String {
                quoted(self)
            }

            fn scalar_words(&self) -> String {
                self.to_string()
            }
        }
    )+};
}
shown_by_name!(Scope, Proof, Algorithm, Malformed, Mode, Direction);

//! Attacks in ordinary traffic, both of public captures where there are any. Packets of an attack get the host's address
//! and made-up senders.

use std::{
    collections::{BTreeMap, HashMap},
    net::Ipv4Addr,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use fastrand::Rng;
use limiter_config::places::Places;
use limiter_tests::need;
use limiter_user::plan::{
    capture::{Capture, Frame},
    flood::{Answer, Packet},
    learn::Flows,
};

use super::{
    generated::{Attack, Made, anywhere, distance},
    mixes::{explained, matched, picture},
};

/// Ordinary traffic: messages and calls; a video conference; a house with several devices.
const ORDINARY: [(&str, &[&str]); 3] = [
    ("messages", &["telegram.pcap"]),
    ("conference", &["zoom2.pcap"]),
    (
        "house",
        &[
            "1kxun.pcap",
            "android.pcap",
            "iphone.pcap",
            "skype.pcap",
            "starcraft_battle.pcap",
            "teams.pcap",
            "whatsapp_login_call.pcap",
        ],
    ),
];
/// Attack packets for each two ordinary packets that limits decide about.
const STRENGTHS: [usize; 3] = [1, 4, 12];
/// The most packets of a capture that are read.
const READ_MAX: usize = 2_400;
/// Successive packets that come before, or now.
const TURN: usize = 50;
/// The most time for an explanation.
const TIME_MAX: Duration = Duration::from_secs(10);

/// The attacks that have packets in captures, with the captures.
const CAPTURED: [(Attack, &[&str]); 6] = [
    (Attack::DnsReflection, &["dns_fragmented.pcap"]),
    (Attack::NtpReflection, &["NTPv2.pcap"]),
    (Attack::SsdpReflection, &["anyconnect-vpn.pcap"]),
    (Attack::Syn, &["synscan.pcap"]),
    (Attack::Fragments, &["ip_fragmented_garbage.pcap"]),
    (Attack::FewSources, &["WebattackRCE.pcap"]),
];

fn frames(path: &Path) -> Vec<Vec<u8>> {
    let packets = Capture::open(path).unwrap();
    packets.map(|packet| packet.frame.bytes).collect()
}

/// Numbers of an Ethernet frame with IPv4: protocol, place of the fragment, source port, flags of TCP, first bytes of UDP.
struct Fields<'a> {
    protocol: u8,
    place: u16,
    source_port: u16,
    flags: u8,
    payload: &'a [u8],
}

fn fields(frame: &[u8]) -> Option<Fields<'_>> {
    let is_ipv4 = frame.len() >= 42 && frame[12..14] == [8, 0] && frame[14] == 0x45;
    is_ipv4.then(|| Fields {
        protocol: frame[23],
        place: u16::from_be_bytes([frame[20], frame[21]]),
        source_port: u16::from_be_bytes([frame[34], frame[35]]),
        flags: frame.get(47).copied().unwrap_or(0),
        payload: &frame[42..],
    })
}

/// True for a packet that the attack consists of.
fn is_part(attack: Attack, frame: &[u8]) -> bool {
    let Some(fields) = fields(frame) else {
        return false;
    };
    let is_later = fields.place & 0x1fff != 0;
    match attack {
        Attack::DnsReflection => fields.protocol == 17 && (is_later || fields.source_port == 53),
        Attack::NtpReflection => fields.protocol == 17,
        Attack::SsdpReflection => {
            fields.protocol == 17 && fields.payload.starts_with(b"HTTP/1.1 200")
        }
        Attack::Syn => fields.protocol == 6 && fields.flags == 2,
        Attack::Fragments => fields.place & 0x3fff != 0,
        Attack::FewSources => {
            fields.protocol == 6 && frame[54..].windows(4).any(|four| four == b"HTTP")
        }
        _ => false,
    }
}

/// The packet of an attack on this host, with another sender.
fn sent_to(host: Ipv4Addr, attack: Attack, mut frame: Vec<u8>, rng: &mut Rng) -> Made {
    let (mut source, mut ttl) = (anywhere(rng), distance(rng));
    let is_later = u16::from_be_bytes([frame[20], frame[21]]) & 0x1fff != 0;
    let mut port = |place: usize, number: u16| {
        if !is_later {
            frame[place..place + 2].copy_from_slice(&number.to_be_bytes());
        }
    };
    match attack {
        Attack::DnsReflection | Attack::NtpReflection | Attack::SsdpReflection => {
            let mut reflectors = Rng::with_seed(rng.u64(..3_000));
            (source, ttl) = (anywhere(&mut reflectors), distance(&mut reflectors));
            port(36, rng.u16(1_024..));
        }
        Attack::FewSources => {
            let sender = rng.u8(..12);
            let mut senders = Rng::with_seed(sender.into());
            (source, ttl) = (anywhere(&mut senders), distance(&mut senders));
            port(34, rng.u16(1_024..));
        }
        _ => port(34, rng.u16(1_024..)),
    }
    frame[18..20].copy_from_slice(&rng.u16(..).to_be_bytes());
    frame[22] = ttl;
    frame[26..30].copy_from_slice(&source.octets());
    frame[30..34].copy_from_slice(&host.octets());
    Made {
        frame,
        is_connection: false,
    }
}

/// The packets of all captured attacks.
fn attacks(folder: &Path) -> BTreeMap<String, Vec<Vec<u8>>> {
    let read = |(attack, names): &(Attack, &[&str])| {
        let all = names.iter().flat_map(|name| frames(&folder.join(name)));
        let frames: Vec<_> = all.filter(|frame| is_part(*attack, frame)).collect();
        assert!(!frames.is_empty(), "{attack:?}");
        (format!("{attack:?}"), frames)
    };
    CAPTURED.iter().map(read).collect()
}

/// So many packets of an attack on a host.
fn attack(
    attack: Attack,
    captured: &BTreeMap<String, Vec<Vec<u8>>>,
    host: Ipv4Addr,
    count: usize,
    rng: &mut Rng,
) -> Vec<Made> {
    let frames = captured.get(&format!("{attack:?}"));
    let packet = |number: usize| match frames {
        Some(frames) => sent_to(host, attack, frames[number % frames.len()].clone(), rng),
        None => {
            let mut made = attack.packet(rng);
            made.frame[30..34].copy_from_slice(&host.octets());
            made
        }
    };
    (0..count).map(packet).collect()
}

/// Ordinary traffic: every other fifty packets of each capture, the packets between, and the host.
struct Traffic {
    before: Vec<Made>,
    now: Vec<Made>,
    host: Ipv4Addr,
}

impl Traffic {
    fn read(folder: &Path, names: &[&str]) -> Self {
        let mut traffic = Self {
            before: Vec::new(),
            now: Vec::new(),
            host: Ipv4Addr::UNSPECIFIED,
        };
        let mut hosts: HashMap<[u8; 4], usize> = HashMap::new();
        let mut rng = Rng::with_seed(3);
        for name in names {
            let made = made_of(&folder.join(name));
            let of_host = made.iter().filter(|made| is_limited_ipv4(made));
            for made in of_host {
                let address = made.frame[30..34].try_into().unwrap();
                *hosts.entry(address).or_default() += 1;
            }
            let (mut before, mut now) = (Vec::new(), Vec::new());
            for (number, turn) in made.chunks(TURN).enumerate() {
                let into = if number % 2 == 0 {
                    &mut before
                } else {
                    &mut now
                };
                into.extend_from_slice(turn);
            }
            traffic.before = mixed(&traffic.before, &before, &mut rng);
            traffic.now = mixed(&traffic.now, &now, &mut rng);
        }
        let (host, _) = hosts.into_iter().max_by_key(|(_, count)| *count).unwrap();
        traffic.host = host.into();
        traffic
    }

    fn limited(&self) -> usize {
        self.now.iter().filter(|made| !made.is_connection).count()
    }
}

fn is_limited_ipv4(made: &Made) -> bool {
    !made.is_connection && made.frame[12..14] == [8, 0]
}

/// The packets of a capture without control traffic.
fn made_of(path: &Path) -> Vec<Made> {
    let mut flows = Flows::default();
    let packets = frames(path).into_iter().filter_map(|frame| {
        let read = Frame {
            length: frame.len() as u64,
            bytes: frame.clone(),
        };
        let (packet, info) = Packet::read(&read, 7, &Places::default())?;
        let is_connection = flows.is_connection(&info);
        (!packet.is_control).then_some(Made {
            frame,
            is_connection,
        })
    });
    packets.take(READ_MAX).collect()
}

/// The packets of both among each other, in their order.
fn mixed(some: &[Made], others: &[Made], rng: &mut Rng) -> Vec<Made> {
    let mut all = Vec::new();
    for made in [some, others] {
        let mut places: Vec<_> = made.iter().map(|_| rng.f64()).collect();
        places.sort_by(f64::total_cmp);
        all.extend(places.into_iter().zip(made));
    }
    all.sort_by(|(place, _), (other, _)| place.total_cmp(other));
    all.into_iter().map(|(_, made)| made.clone()).collect()
}

fn captures() -> Option<PathBuf> {
    need::captures("floods::public")
}

#[test]
fn attacks_are_told_from_captured_traffic() {
    let Some(folder) = captures() else { return };
    let captured = attacks(&folder);
    thread::scope(|scope| {
        for (name, captures) in ORDINARY {
            let ordinary = Traffic::read(&folder, captures);
            scope.spawn(|| tell_from(name, ordinary, &captured));
        }
    });
}

/// Tries all attacks in this traffic, at each strength.
fn tell_from(name: &str, ordinary: Traffic, captured: &BTreeMap<String, Vec<Vec<u8>>>) {
    let mut rng = Rng::with_seed(5);
    let picture = picture(&ordinary.before);
    let all = [&ordinary.before[..], &ordinary.now[..]].concat();
    for strength in STRENGTHS {
        let mut missed = BTreeMap::new();
        let count = strength * ordinary.limited() / 2;
        for kind in Attack::ALL {
            let flood = attack(kind, captured, ordinary.host, count, &mut rng);
            let mixed = mixed(&flood, &ordinary.now, &mut rng);
            let begun = Instant::now();
            let explanation = explained(&mixed, &picture);
            let elapsed = begun.elapsed();
            let (found, cost) = (matched(&explanation, &flood), matched(&explanation, &all));
            let patterns = explanation.patterns.iter();
            println!(
                "{name} {strength} {kind:?} ({elapsed:?}): {:.2} % of the attack, {:.3} % of ordinary packets by {:?}",
                100.0 * found,
                100.0 * cost,
                patterns.map(|pattern| &pattern.matches).collect::<Vec<_>>()
            );
            assert!(elapsed < TIME_MAX, "{name} {kind:?}: {elapsed:?}");
            assert!(cost <= 0.01, "{name} {kind:?}: {explanation:#?}");
            if found < 0.99 || cost > 0.001 {
                missed.insert(format!("{kind:?}"), explanation);
            }
        }
        assert!(missed.len() <= 2, "{name}, {strength}: {missed:#?}");
    }
}

#[test]
fn captured_packets_from_made_up_sources_have_no_pattern() {
    let Some(folder) = captures() else { return };
    let mut rng = Rng::with_seed(9);
    for (name, captures) in ORDINARY {
        let ordinary = Traffic::read(&folder, captures);
        let picture = picture(&ordinary.before);
        let ipv4: Vec<_> = ordinary
            .now
            .iter()
            .filter(|made| is_limited_ipv4(made))
            .collect();
        let flood: Vec<_> = (0..3 * ipv4.len())
            .map(|_| {
                let mut made = ipv4[rng.usize(..ipv4.len())].clone();
                made.frame[26..30].copy_from_slice(&anywhere(&mut rng).octets());
                made
            })
            .collect();
        let explanation = explained(&mixed(&flood, &ordinary.now, &mut rng), &picture);
        assert_eq!(
            explanation.answer,
            Answer::NoPattern,
            "{name}: {explanation:#?}"
        );
    }
}

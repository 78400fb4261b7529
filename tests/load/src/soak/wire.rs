//! The packets: sources that the soak checks, made-up sources and odd frames. Their receiver.

use std::{
    net::{IpAddr, Ipv4Addr},
    process::Command,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Duration,
};

use arbitrary::Unstructured;

use limiter_tests::{
    eventually,
    hosts::{Hosts, on},
    number,
    packet::Frame,
    random::frames::{Pool, frame},
    raw::Raw,
};

/// Behaviour of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sends less than its limit.
    Slow,
    /// Always sends far more than its limit.
    Heavy,
    /// Heavy, and denied at times.
    Denied,
    /// Heavy, and banned at times.
    Banned,
    /// Heavy, and allowed or reset at times.
    Touched,
}

const SOURCES: [(&str, Role); 14] = [
    ("203.0.113.101", Role::Slow),
    ("203.0.113.102", Role::Slow),
    ("203.0.113.103", Role::Slow),
    ("2001:db8:5:1::", Role::Slow),
    ("2001:db8:5:2::", Role::Slow),
    ("198.51.100.1", Role::Heavy),
    ("198.51.100.2", Role::Heavy),
    ("198.51.100.3", Role::Heavy),
    ("2001:db8:66:1::", Role::Heavy),
    ("2001:db8:66:2::", Role::Heavy),
    ("203.0.113.200", Role::Denied),
    ("203.0.113.202", Role::Banned),
    ("203.0.113.201", Role::Touched),
    ("198.51.100.100", Role::Touched),
];

/// A source that the soak checks.
#[derive(Debug)]
pub struct Source {
    pub address: IpAddr,
    pub role: Role,
    frame: Vec<u8>,
    /// Packets sent, of a slow source.
    sent: AtomicU64,
    passed: AtomicU64,
}

impl Source {
    /// Number of packets that passed.
    pub fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }
}

/// The traffic, and its counts.
#[derive(Debug)]
pub struct Wire {
    pub sources: Vec<Source>,
    behind: Raw,
    /// Packets of the floods.
    sent: AtomicU64,
    received: AtomicU64,
    /// Number of times that the socket was empty.
    pauses: AtomicU64,
}

impl Wire {
    pub fn new(hosts: &Hosts) -> Self {
        let sources = SOURCES.map(|(address, role)| {
            let address: IpAddr = address.parse().unwrap();
            Source {
                address,
                role,
                frame: hosts.frame(address).bytes(),
                sent: AtomicU64::default(),
                passed: AtomicU64::default(),
            }
        });
        Self {
            sources: sources.into(),
            behind: Raw::open(&hosts.server),
            sent: AtomicU64::default(),
            received: AtomicU64::default(),
            pauses: AtomicU64::default(),
        }
    }

    /// The sources with one of these roles.
    pub fn of<'s>(&'s self, roles: &'s [Role]) -> impl Iterator<Item = &'s Source> {
        let sources = self.sources.iter();
        sources.filter(|source| roles.contains(&source.role))
    }

    /// Number of packets sent.
    pub fn sent(&self) -> u64 {
        let slow = self.of(&[Role::Slow]).map(|source| &source.sent);
        let parts = slow.chain([&self.sent]);
        parts.map(|part| part.load(Ordering::SeqCst)).sum()
    }

    /// Counts packets that a flood has sent.
    pub fn count(&self, sent: u64) {
        self.sent.fetch_add(sent, Ordering::SeqCst);
    }

    /// Number of packets received, and of frames lost because the socket had no room.
    pub fn received(&self) -> (u64, u64) {
        (self.received.load(Ordering::Relaxed), self.behind.lost())
    }

    /// Receives until `done`, including the frames that have arrived by then.
    pub fn receive(&self, done: &AtomicBool) {
        let mut buffer = vec![0; 256];
        loop {
            let last = done.load(Ordering::Relaxed);
            while let Some((length, kind)) = self.behind.receive_into(&mut buffer) {
                if kind != libc::PACKET_OUTGOING {
                    self.received.fetch_add(1, Ordering::Relaxed);
                    let is_from = |source: &&Source| source.frame == buffer[..length];
                    if let Some(source) = self.sources.iter().find(is_from) {
                        source.passed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
            self.pauses.fetch_add(1, Ordering::Release);
            if last {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until every packet that passed before the call is counted, and the current program decides about all
    /// packets. Closing a packet socket waits for all packets that are being received: `packet_release` calls
    /// `synchronize_net`.
    pub fn settle(&self, hosts: &Hosts) {
        drop(Raw::open(&hosts.server));
        let pauses = self.pauses.load(Ordering::Acquire);
        // The next pause may have begun before the call.
        eventually("all received packets are counted", || {
            self.pauses.load(Ordering::Acquire) >= pauses + 2
        });
    }

    /// Sends a packet from each slow source, 20 per second.
    pub fn round(&self, hosts: &Hosts) {
        let wire = Raw::to_send(&hosts.client);
        for source in self.of(&[Role::Slow]) {
            wire.send(&source.frame);
            source.sent.fetch_add(1, Ordering::SeqCst);
        }
        thread::sleep(Duration::from_millis(50));
    }

    /// Panics unless all packets of slow sources arrive.
    pub fn expect_no_loss(&self, hosts: &Hosts) {
        let lost = lost(hosts);
        for source in self.of(&[Role::Slow]) {
            let sent = source.sent.load(Ordering::SeqCst);
            let condition = format!("{} loses none of {sent} packets", source.address);
            eventually(&condition, || source.passed() + lost >= sent);
        }
    }

    /// Frames that a flood repeats: each odd frame, followed by one of every heavy source.
    pub fn usual(&self, hosts: &Hosts) -> Vec<Vec<u8>> {
        let heavy = || self.of(&[Role::Heavy, Role::Denied, Role::Banned, Role::Touched]);
        let frames = odd(hosts).into_iter().flat_map(|odd| {
            let heavy = heavy().map(|source| source.frame.clone());
            [odd].into_iter().chain(heavy)
        });
        frames.collect()
    }
}

/// Large frames, and random ones: tagged, fragmented, malformed and others.
fn odd(hosts: &Hosts) -> Vec<Vec<u8>> {
    let sized = |payload| {
        let frame = hosts.frame(Ipv4Addr::new(100, 64, 0, 1).into());
        Frame { payload, ..frame }.bytes()
    };
    let mut random = fastrand::Rng::with_seed(1);
    let pool = Pool {
        ipv4: vec![[192, 0, 2, 7], [203, 0, 113, 5]],
        payloads: vec![0, 18, 64],
        ..Pool::default()
    };
    let random = (0..20).map(|_| {
        let bytes: [u8; 256] = std::array::from_fn(|_| random.u8(..));
        let mut frame = frame(&mut Unstructured::new(&bytes), &pool).unwrap();
        frame[..6].copy_from_slice(&hosts.server.mac);
        frame[6..12].copy_from_slice(&hosts.client.mac);
        frame
    });
    random.chain([sized(1_400), sized(5_000)]).collect()
}

/// Maximum number of packets that the wire dropped before the program. Packets are sent again if the kernel reports the
/// drop.
pub fn lost(hosts: &Hosts) -> u64 {
    let mut ip = Command::new("ip");
    ip.args(["-s", "-j", "link", "show", "eth0"]);
    let output = on(&hosts.client, || ip.output()).unwrap();
    let links: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    number(&links[0]["stats64"]["tx"]["dropped"])
}

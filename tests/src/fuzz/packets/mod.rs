//! Fuzz target for packets: the program in the kernel, the policy in user space and the tests' own model agree on
//! verdict, source and limits.
//!
//! The frames are structured, and then damaged. The model reads headers with another parser (etherparse).

mod generate;

use std::{cell::RefCell, net::Ipv4Addr};

use arbitrary::Unstructured;
use ipnet::IpNet;
use limiter_common::{policy::verdict::Reason, table::key::SourceKey};
use limiter_user::{
    config::{Limit, file},
    plan::{
        capture::Link,
        replay::{Compiled, Engine as Replay},
    },
};

use crate::{
    engine::{FRAME_MAX, Kernel},
    model::{Id, Model},
};
pub use generate::{Pool, frame};

/// Time of all packets, so that nothing is refilled between them.
const NOW: u64 = 1_000_000_000_000;

/// The fast path, lists, and everything that a limit can match. All bursts are one packet.
const CONFIGURATIONS: [&str; 7] = [
    "[[limit]]\nname = \"a\"\nrate = \"1/s\"\nburst = 1\n",
    "malformed = \"pass\"\n[[limit]]\nname = \"a\"\nkey = \"/24,/128\"\nrate = \"1/s\"\nburst = 1\n",
    "shadow = true\n[[limit]]\nname = \"a\"\nkey = \"/0,/0\"\nrate = \"1/s\"\nburst = 1\n",
    "[lists]\nallow = [\"203.0.113.0/24\", \"2001:db8:a::/48\"]\n\
     deny = [\"198.51.100.66\", \"203.0.113.128/25\", \"2001:db8:d::/64\"]\n\
     [[limit]]\nname = \"a\"\nrate = \"1/s\"\nburst = 1\n\
     [[limit]]\nname = \"six\"\nmatch = { ip_version = 6 }\nkey = \"interface\"\nrate = \"1/s\"\nburst = 1\n",
    "[[limit]]\nname = \"dns\"\nmatch = { protocol = \"udp\", destination_port = [53, \"5300-5353\"] }\nrate = \"1/s\"\nburst = 1\n\
     [[limit]]\nname = \"syn\"\nmatch = { protocol = \"tcp\", tcp_flags = \"syn\" }\nkey = \"/24,/48\"\nrate = \"1/s\"\nburst = 1\n\
     [[limit]]\nname = \"ports\"\nmatch = { fragments = false }\nkey = \"/32,/64,destination_port\"\nrate = \"1/s\"\nburst = 1\n\
     [[limit]]\nname = \"fragments\"\nmatch = { fragments = true }\nkey = \"/16,/32\"\nrate = \"1/s\"\nburst = 1\n",
    "exempt = [\"control\"]\n[lists]\ndeny = [\"198.51.100.66\", \"2001:db8:d::/64\"]\nallow = [\"203.0.113.0/24\"]\n\
     [[limit]]\nname = \"icmp\"\nmatch = { protocol = \"icmpv6\" }\nkey = \"/32,/128\"\nrate = \"1/s\"\nburst = 1\n\
     [[limit]]\nname = \"from\"\nmatch = { source_port = \"0-1023\" }\nrate = \"1/s\"\nburst = 1\n",
    "malformed = \"pass\"\nexempt = [\"control\"]\n[[limit]]\nname = \"all\"\nrate = \"1/s\"\nburst = 1\n\
     [[limit]]\nname = \"sctp\"\nmatch = { protocol = \"sctp\" }\nkey = \"interface,destination_port\"\nrate = \"1/s\"\nburst = 1\n",
];

/// Number of configurations.
pub const CONFIGURATIONS_LENGTH: usize = CONFIGURATIONS.len();

/// Packets by the reason's number.
pub type Tally = [u64; Reason::ALL.len()];

/// A bucket's key, and its packets passed and refused.
type Counted = (SourceKey, u64, u64);

/// A configuration, and the engines that use it.
struct Loaded {
    text: &'static str,
    limits: Vec<Limit>,
    kernel: Kernel,
    compiled: Compiled,
    /// A model without buckets.
    model: Model,
}

/// The first byte selects the configuration; the others make a few frames.
pub(super) fn run(bytes: &[u8]) {
    let mut u = Unstructured::new(bytes);
    let number = usize::from(u.arbitrary::<u8>().unwrap()) % CONFIGURATIONS.len();
    let mut tally = Tally::default();
    for _ in 0..4 {
        let frame = frame(&mut u, &Pool::default()).unwrap();
        offer(number, &frame, &mut tally);
        if u.is_empty() {
            break;
        }
    }
}

/// Compares the verdicts on a frame under one of the configurations. Panics if they differ. Returns the first reason,
/// and the buckets.
pub fn offer(configuration: usize, frame: &[u8], tally: &mut Tally) -> (Reason, Vec<SourceKey>) {
    thread_local! {
        static LOADED: RefCell<Vec<Option<Loaded>>> = const { RefCell::new(Vec::new()) };
    }
    LOADED.with_borrow_mut(|loaded| {
        loaded.resize_with(CONFIGURATIONS.len(), || None);
        let one =
            loaded[configuration].get_or_insert_with(|| Loaded::new(CONFIGURATIONS[configuration]));
        one.offer(frame, tally)
    })
}

impl Loaded {
    fn new(text: &'static str) -> Self {
        let whole = format!("max_sources = 256\nnew_sources = \"none\"\n{text}");
        let settings = file::parse(&whole, ".".as_ref()).unwrap().settings;
        let limits: Vec<Limit> = settings.all_limits().into_iter().collect();
        let phases = limits.iter().map(|limit| (limit.name.clone(), 0)).collect();
        Self {
            text,
            kernel: Kernel::of(&settings),
            compiled: Compiled::new(&settings).unwrap(),
            model: Model::new(&settings, &phases, FRAME_MAX, 0, NOW),
            limits,
        }
    }

    /// Offers the frame twice at one time: the first frame meets full buckets, the second one meets empty ones.
    fn offer(&mut self, frame: &[u8], tally: &mut Tally) -> (Reason, Vec<SourceKey>) {
        let _ = self.kernel.tables.sets.forget_all();
        let mut model = self.model.clone();
        let mut replay = Replay::model(&self.compiled, NOW);
        let shown = Link::Ethernet.frame(frame, frame.len() as u64);
        let [first, _] = [1, 2].map(|number| {
            let wanted = model.offer(frame, NOW);
            let about = || format!("packet {number}\n{}\n{wanted:?}\n{frame:02x?}", self.text);
            let reason = self.kernel.offer(frame, NOW);
            let replayed = replay.offer(&shown, NOW).unwrap();
            assert_eq!(reason, replayed, "kernel and policy, {}", about());
            assert_eq!(reason, wanted.reason, "{}", about());
            tally[reason as usize] += 1;
            let buckets = self.in_kernel();
            assert_eq!(buckets, self.in_model(&model), "{}", about());
            (reason, buckets.into_iter().map(|(key, ..)| key).collect())
        });
        first
    }

    fn in_kernel(&self) -> Vec<Counted> {
        let sources = self.kernel.tables.sets.sources();
        sorted(sources.map(|(key, source)| (key, source.passed, source.refused)))
    }

    fn in_model(&self, model: &Model) -> Vec<Counted> {
        let buckets = model.buckets.iter();
        sorted(buckets.map(|(id, bucket)| (self.key(id), bucket.passed, bucket.refused)))
    }

    fn key(&self, (name, owner): &Id) -> SourceKey {
        let mut limits = (0..).zip(&self.limits);
        let (slot, limit) = limits.find(|(_, limit)| limit.name == *name).unwrap();
        let any = Ipv4Addr::UNSPECIFIED.into();
        let address = owner.prefix.as_ref().map_or(any, IpNet::network);
        limit.key.of(slot, address, owner.port.unwrap_or(0))
    }
}

fn sorted(buckets: impl Iterator<Item = Counted>) -> Vec<Counted> {
    let mut buckets: Vec<_> = buckets.collect();
    buckets.sort_by_key(|(key, ..)| (key.scope, key.address()));
    buckets
}

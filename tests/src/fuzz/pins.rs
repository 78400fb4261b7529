//! Fuzz target for the maps of an attachment: `top`, `status`, `check` and `reset` give figures or an error for
//! arbitrary contents.
//!
//! Such contents may come from another version, a torn write or another writer.

use std::{cell::RefCell, net::IpAddr};

use arbitrary::{Result, Unstructured};
use aya::maps::{Array, Map, MapData, PerCpuArray, PerCpuValues};
use limiter_common::abi::{
    Set,
    counters::{Count, Counters},
    events::Event,
};
use limiter_kernel::{
    Attachment,
    ops::{attach::attach, detach::detach, set::Wanted, watch},
    program::raw::Raw,
    state::pins,
    sys::clock,
};
use limiter_user::{
    observe::{Sample, Status, check, collect, event, query::Query},
    show,
};

use super::message::expect_one_line;
use crate::{settings, testbed::Namespace};

/// Few sets, so that random words often meet the same entries.
const SETTINGS: &str = "mode = \"generic\"\nmax_sources = 16\nexempt = [\"control\"]\n\
    [lists]\nallow = [\"198.51.100.0/24\"]\ndeny = [\"203.0.113.0/24\"]\nnear = [\"192.0.2.0/24\", \"2001:db8::/32\"]\n\
    [[limit]]\nname = \"source\"\nrate = \"5/s\"\nburst = 10\n\
    [[limit]]\nname = \"bytes\"\nkey = \"/24,/128\"\nmatch = { source = \"near\" }\nrate = \"10mbit\"\n\
    [[limit]]\nname = \"window\"\nkey = \"interface,destination_port\"\nrate = \"100/m\"\nalgorithm = \"fixed-window\"\nshadow = true\n";

/// An attachment without pins, and with maps that can be written.
struct Opened {
    attachment: Attachment,
    sets: Array<MapData, Raw<Set>>,
    counters: PerCpuArray<MapData, Raw<Counters>>,
}

impl Opened {
    fn new() -> Self {
        let opened = Namespace::new().unwrap().block_on(|| async {
            let wanted = Wanted {
                settings: settings(SETTINGS),
                ..Wanted::default()
            };
            attach("lo", &wanted).await.unwrap();
            let folder = pins::directory("lo").unwrap();
            let map = |name: &str| MapData::from_pin(folder.join(name)).unwrap();
            let opened = Self {
                sets: Map::Array(map("SETS")).try_into().unwrap(),
                counters: Map::PerCpuArray(map("COUNTED")).try_into().unwrap(),
                attachment: Attachment::open("lo").await.unwrap(),
            };
            // The open maps stay, and nothing is left behind, however the process ends.
            detach("lo").await.unwrap();
            opened
        });
        opened.unwrap()
    }

    /// Fills sets and counters. They get zeros after the end of the bytes.
    fn fill(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let now = clock::now().unwrap();
        for number in 0..self.sets.len() {
            let mut set = Set::default();
            for word in set.entries.iter_mut().flat_map(|entry| &mut entry.words) {
                *word = word_of(u, now)?;
            }
            self.sets.set(number, Raw(set), 0).unwrap();
        }
        let cpus = aya::util::nr_cpus().unwrap();
        for row in 0..2 {
            let values = (0..cpus).map(|_| {
                let mut counters = Counters {
                    sources_added: u.arbitrary()?,
                    sources_removed: u.arbitrary()?,
                    ..Counters::default()
                };
                for counter in &mut counters.by_reason {
                    let (packets, bytes) = u.arbitrary()?;
                    *counter = Count { packets, bytes };
                }
                Ok(Raw(counters))
            });
            let values = PerCpuValues::try_from(values.collect::<Result<Vec<_>>>()?);
            self.counters.set(row, values.unwrap(), 0).unwrap();
        }
        Ok(())
    }

    /// Reads the maps as the commands do.
    fn read(&self) {
        let attachment = &self.attachment;
        let Sample { interface, top, .. } = collect::once(attachment, 10).unwrap();
        let _ = show::top::once(&top);
        assert!(interface.sources.tracked <= interface.sources.capacity);
        let verdicts = &interface.verdicts;
        let sum = verdicts
            .passed
            .packets
            .wrapping_add(verdicts.dropped.packets);
        assert_eq!(verdicts.seen.packets, sum);
        assert!(top.sources.len() <= 10);
        serde_json::to_string(&top).unwrap();
        let interfaces = vec![interface];
        let status = Status {
            interfaces,
            feeds: Vec::new(),
        };
        serde_json::to_string(&status).unwrap();
        let _ = show::status::status(&status, Some(80));
        for source in ["192.0.2.7", "203.0.113.9", "2001:db8::7"] {
            let source: IpAddr = source.parse().unwrap();
            let query = Query {
                source,
                to: None,
                port: None,
                vlan: None,
                from_port: None,
                protocol: None,
            };
            let check = check::check(attachment, &query).unwrap();
            for limit in &check.limits {
                let burst = limit.burst_tokens as f64;
                assert!((0.0..=burst).contains(&limit.tokens), "{limit:?}");
                let wait = limit.retry_after_seconds;
                assert!(wait.is_none_or(|wait| wait >= 0.0), "{limit:?}");
            }
            serde_json::to_string(&check).unwrap();
            let _ = show::check::check(&check);
        }
        let sets = &attachment.tables.sets;
        let _ = sets.forget_where(|_| true);
        assert_eq!(sets.sources().count(), 0);
    }
}

/// A word of an entry: a special value, a time near `now`, or any number.
fn word_of(u: &mut Unstructured<'_>, now: u64) -> Result<u64> {
    Ok(match u.arbitrary::<u8>()? {
        few @ 0..=63 => u64::from(few % 5),
        64..=127 => (now << 8).wrapping_add(u.arbitrary::<u32>()?.into()),
        _ => u.arbitrary()?,
    })
}

/// An event of the ring buffer with any contents and any length.
fn read_event(bytes: &[u8]) {
    let read = watch::read(bytes);
    assert_eq!(read.is_some(), bytes.len() >= size_of::<Event>());
    if let Some(record) = read {
        let event = event::event("lo", None, &record).unwrap();
        serde_json::to_string(&event).unwrap();
        expect_one_line(show::watch::line(&event).trim_end());
    }
}

/// Fills the maps from the bytes, and reads them.
pub(super) fn run(bytes: &[u8]) {
    thread_local! {
        static OPENED: RefCell<Option<Opened>> = const { RefCell::new(None) };
    }
    read_event(bytes);
    OPENED.with_borrow_mut(|opened| {
        let opened = opened.get_or_insert_with(Opened::new);
        opened.fill(&mut Unstructured::new(bytes)).unwrap();
        opened.read();
    });
}

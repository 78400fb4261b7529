//! Fuzz target for the maps of an attachment: every command that reads arbitrary contents gives figures or an error.
//!
//! Such contents may come from another version, a torn write or another writer.

use std::{cell::RefCell, net::IpAddr, time::Duration};

use arbitrary::{Result, Unstructured};
use aya::maps::{
    Array, Map, MapData, PerCpuArray, PerCpuValues,
    lpm_trie::{Key, LpmTrie},
};
use limiter_common::{
    abi::{
        Listed, Set,
        counters::{Count, Counters, LimitCounters},
        events::{Event, Watched},
        rules::LISTS_MAX,
    },
    table::key::SLOTS,
};
use limiter_user::{
    config::file,
    kernel::{
        Attachment,
        ops::{attach::attach, detach::detach, set::Wanted as Whole, watch},
        program::raw::Raw,
        state::pins,
        sys::clock,
    },
    observe::{
        Status, Verdicts,
        busiest::Order,
        check, collect, event,
        live::{Gauge, Wanted},
        source::Top,
    },
    show,
};

use crate::testbed::Namespace;

/// Few sets, so that random words often meet the same entries.
const SETTINGS: &str = "mode = \"generic\"\nmax_sources = 16\nexempt = [\"control\"]\n\
    [lists]\nallow = [\"198.51.100.0/24\"]\ndeny = [\"203.0.113.0/24\"]\nnear = [\"192.0.2.0/24\", \"2001:db8::/32\"]\n\
    [[limit]]\nname = \"source\"\nrate = \"5/s\"\nburst = 10\n\
    [[limit]]\nname = \"bytes\"\nkey = \"/24,/128\"\nmatch = { source = \"near\" }\nrate = \"10mbit\"\n\
    [[limit]]\nname = \"window\"\nkey = \"interface,destination_port\"\nrate = \"100/m\"\nalgorithm = \"fixed-window\"\nshadow = true\n";

/// An attachment without pins, and with maps that can be written.
struct Opened {
    attachment: Attachment,
    gauge: Gauge,
    sets: Array<MapData, Raw<Set>>,
    counters: PerCpuArray<MapData, Raw<Counters>>,
    limits: PerCpuArray<MapData, Raw<LimitCounters>>,
    hits: PerCpuArray<MapData, Raw<Count>>,
    watched: PerCpuArray<MapData, Raw<Watched>>,
    listed: LpmTrie<MapData, [u8; 8], Raw<Listed>>,
}

impl Opened {
    fn new() -> Self {
        let namespace = Namespace::new().unwrap();
        namespace
            .block_on(|| async {
                let settings = file::parse(SETTINGS, ".".as_ref()).unwrap().settings;
                attach("lo", &Whole::new(settings)).await.unwrap();
                let attachment = Attachment::open("lo").await.unwrap();
                let folder = pins::directory("lo").unwrap();
                let map = |name: &str| MapData::from_pin(folder.join(name)).unwrap();
                let lists = MapData::from_pin(folder.join(pins::generation(0)).join("LISTED_IPV4"));
                let lists = lists.or_else(|_| {
                    MapData::from_pin(folder.join(pins::generation(1)).join("LISTED_IPV4"))
                });
                let opened = Self {
                    sets: Map::Array(map("SETS")).try_into().unwrap(),
                    counters: Map::PerCpuArray(map("COUNTED")).try_into().unwrap(),
                    limits: Map::PerCpuArray(map("LIMITS")).try_into().unwrap(),
                    hits: Map::PerCpuArray(map("LIST_HITS")).try_into().unwrap(),
                    watched: Map::PerCpuArray(map("WATCHED")).try_into().unwrap(),
                    listed: Map::LpmTrie(lists.unwrap()).try_into().unwrap(),
                    gauge: Gauge::default(),
                    attachment,
                };
                // The open maps stay, and nothing is left behind, however the process ends.
                detach("lo").await.unwrap();
                opened
            })
            .unwrap()
    }

    fn fill(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let now = clock::now().unwrap();
        for number in 0..self.sets.len() {
            let mut set = Set::default();
            for entry in &mut set.entries {
                for word in &mut entry.words {
                    *word = word_of(u, now)?;
                }
            }
            self.sets.set(number, Raw(set), 0).unwrap();
        }
        for row in 0..2 {
            let values = every_cpu(u, |u| {
                let mut counters = Counters {
                    sources_added: u.arbitrary()?,
                    sources_removed: u.arbitrary()?,
                    ..Counters::default()
                };
                for one in &mut counters.by_reason {
                    *one = count(u)?;
                }
                Ok(counters)
            })?;
            self.counters.set(row, values, 0).unwrap();
        }
        let slot = u.int_in_range(0..=SLOTS - 1)?;
        let values = every_cpu(u, |u| {
            Ok(LimitCounters {
                admitted: count(u)?,
                dropped: count(u)?,
                would_drop: count(u)?,
            })
        })?;
        self.limits.set(slot, values, 0).unwrap();
        let bit = u.int_in_range(0..=LISTS_MAX - 1)?;
        let values = every_cpu(u, count)?;
        self.hits.set(bit, values, 0).unwrap();
        let values = every_cpu(u, |u| {
            Ok(Watched {
                lost: u.arbitrary()?,
                ..Watched::default()
            })
        })?;
        self.watched.set(0, values, 0).unwrap();
        let listed = Listed {
            lists: u.arbitrary()?,
            own: u.arbitrary()?,
            dropped: u.arbitrary()?,
        };
        let key = Key::new(24, [203, 0, 113, 0, 0, 0, 0, 0]);
        self.listed.insert(&key, Raw(listed), 0).unwrap();
        Ok(())
    }

    /// Reads the maps by every command.
    fn read(&mut self) {
        let attachment = &self.attachment;
        let sample = collect::once(attachment, 10).unwrap();
        let _ = show::top::once(&sample);
        let (top, interface) = (Top::new(&sample), sample.interface);
        assert!(interface.sources.tracked <= interface.sources.capacity);
        let Verdicts {
            seen,
            passed,
            dropped,
            ..
        } = interface.verdicts;
        assert_eq!(seen.packets, passed.packets.wrapping_add(dropped.packets));
        assert_eq!(seen.bytes, passed.bytes.wrapping_add(dropped.bytes));
        assert!(top.sources.len() <= 10);
        serde_json::to_string(&top).unwrap();
        let status = Status {
            interfaces: vec![interface],
        };
        serde_json::to_string(&status).unwrap();
        let _ = show::status::status(&status);
        for source in ["192.0.2.7", "203.0.113.9", "2001:db8::7"] {
            let source: IpAddr = source.parse().unwrap();
            let check = check::check(attachment, source).unwrap();
            for limit in &check.limits {
                assert!(
                    (0.0..=limit.burst_tokens as f64).contains(&limit.tokens),
                    "{limit:?}"
                );
                assert!(
                    limit.retry_after_seconds.is_none_or(|wait| wait >= 0.0),
                    "{limit:?}"
                );
            }
            serde_json::to_string(&check).unwrap();
            let _ = show::check::check(&check);
        }
        let wanted = Wanted {
            order: Order::PassedPerSecond,
            most: 5,
        };
        let sample = collect::sample(attachment, wanted, &mut self.gauge).unwrap();
        let before = Some(&sample.interface);
        let _ = show::top::live(&sample, before, Duration::from_secs(1));
        let settings = attachment.settings().unwrap();
        let _ = file::show(&["lo".to_owned()], &settings);
        let sources: Vec<_> = attachment.tables.sets.sources().collect();
        for (key, _) in &sources {
            let _ = attachment.tables.sets.forget(key);
        }
        let _ = attachment.tables.sets.forget_all();
        let left = attachment.tables.sets.sources().count();
        assert_eq!(left, 0, "of {} sources", sources.len());
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

fn count(u: &mut Unstructured<'_>) -> Result<Count> {
    Ok(Count {
        packets: u.arbitrary()?,
        bytes: u.arbitrary()?,
    })
}

fn every_cpu<T>(
    u: &mut Unstructured<'_>,
    mut one: impl FnMut(&mut Unstructured<'_>) -> Result<T>,
) -> Result<PerCpuValues<Raw<T>>>
where
    Raw<T>: aya::Pod,
{
    let cpus = aya::util::nr_cpus().unwrap();
    let values: Result<Vec<_>> = (0..cpus).map(|_| one(u).map(Raw)).collect();
    Ok(PerCpuValues::try_from(values?).unwrap())
}

/// An event of the ring buffer with any contents and any length.
fn read_event(bytes: &[u8]) {
    let read = watch::read(bytes);
    assert_eq!(read.is_some(), bytes.len() >= Event::SHORT);
    if let Some(record) = read {
        let event = event::event("lo", None, &record).unwrap();
        serde_json::to_string(&event).unwrap();
        super::expect_one_line(show::watch::line(&event).trim_end());
    }
}

/// Fills the maps from the bytes, and reads them by every command.
pub(super) fn run(bytes: &[u8]) {
    thread_local! {
        static OPENED: RefCell<Option<Opened>> = const { RefCell::new(None) };
    }
    read_event(bytes);
    OPENED.with_borrow_mut(|opened| {
        let opened = opened.get_or_insert_with(Opened::new);
        // The maps get zeros after the end of the bytes.
        opened.fill(&mut Unstructured::new(bytes)).unwrap();
        opened.read();
    });
}

//! The table of open connections, mapped into this process, and the program that counts them.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    net::IpAddr,
    os::fd::{AsFd as _, OwnedFd},
    sync::atomic::AtomicU64,
};

use aya::maps::MapData;
use limiter_common::{
    abi::{Constants, connections::Bound},
    open::{
        self, FIRST_REGION, FULL, LOST, Line, Place, WORDS, change_of_full, count, port_place, tag,
    },
    table::{key::SourceKey, word::Word},
};
use limiter_config::key::address;

use crate::{
    error::{Failed, Result},
    program::maps::open_map,
    sys::{
        Dir,
        sockets::{self, TcpSocket},
        words::Words,
    },
};

/// The name of the table's map, and of its pin in the folder of a generation.
pub const TABLE: &str = "OPEN";
/// The pin of the link of the program that counts.
pub const COUNTER: &str = "counter";
/// The name of that program in the object.
pub const ENTRY: &str = "connections";

/// Lists of sockets that are compared with a table that changes.
const PASSES: u32 = 8;

/// The program that counts, at its tracepoint. It counts for as long as this is open, or pinned.
#[derive(Debug)]
pub struct Counter(pub OwnedFd);

impl Counter {
    /// Pins it in the folder of a generation.
    pub fn pin(&self, folder: &Dir) -> Result<()> {
        folder.put(COUNTER, self.0.as_fd())
    }
}

/// The open connections under one limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Open connections.
    pub open: u64,
    /// Keys that have some.
    pub keys: u64,
    /// Keys that have as many as the limit allows.
    pub full: u64,
}

/// The table of a generation.
pub struct OpenTable {
    words: Words,
    config: Box<Constants>,
}

/// A mapped line.
#[derive(Clone, Copy)]
struct Mapped<'a>(&'a [AtomicU64]);

impl<'a> Line for Mapped<'a> {
    type Word = &'a AtomicU64;

    fn word(self, index: u32) -> &'a AtomicU64 {
        &self.0[index as usize]
    }
}

fn load(word: &AtomicU64) -> u64 {
    Word::load(word)
}

impl OpenTable {
    /// Maps the table of a program with these constants.
    pub fn new(map: &MapData, config: Box<Constants>) -> Result<Self> {
        let lines = map.info()?.max_entries() as usize;
        let words = Words::map(map, lines * WORDS as usize * size_of::<u64>());
        let words = words.failed("mapping the table of connections")?;
        Ok(Self { words, config })
    }

    /// Maps the table that is pinned in the folder of a generation with these constants.
    pub fn open(folder: &Dir, config: Box<Constants>) -> Result<Self> {
        Self::new(&open_map(folder, TABLE)?, config)
    }

    fn line(&self, number: u32) -> Option<Mapped<'_>> {
        let first = number as usize * WORDS as usize;
        self.words.get(first..first + WORDS as usize).map(Mapped)
    }

    fn total(&self, index: u32) -> Option<&AtomicU64> {
        self.line(0).map(|line| line.word(index))
    }

    /// Kernel memory of the table, in bytes.
    pub fn memory(&self) -> u64 {
        size_of_val(&*self.words) as u64
    }

    /// Connections that found no room in the table, and are not bounded.
    pub fn lost(&self) -> u64 {
        self.total(LOST).map_or(0, load)
    }

    /// The open connections under the limit with this index.
    pub fn totals(&self, index: usize) -> Totals {
        let Some(bound) = self.bound(index) else {
            return Totals::default();
        };
        let mut totals = Totals::default();
        for number in self.region(bound) {
            let words = self.line(number).into_iter();
            let words = words.flat_map(|line| (1..WORDS).map(move |index| load(line.word(index))));
            for word in words.filter(|word| *word != 0) {
                totals.open += count(word);
                totals.keys += 1;
                totals.full += u64::from(count(word) >= u64::from(bound.most));
            }
        }
        totals
    }

    /// The open connections of the key of `peer` at this local port, under the limit with this index. `None`: it does not count
    /// them.
    pub fn of(&self, index: usize, peer: IpAddr, port: u16) -> Option<u64> {
        let (place, _) = self.place(index, peer, port)?;
        let line = self.line(place.line)?;
        Some(open::count_of(line, place.tag))
    }

    /// The open connections of a key; `None` if its limit does not bound them.
    pub fn of_key(&self, key: &SourceKey) -> Option<u64> {
        let (index, _) = self.config.limit_in(key.slot())?;
        let bound = self.bound(index as usize)?;
        let place = Place::of(&self.config.seed, key, bound, self.config.bounds.lines);
        let line = self.line(place.line)?;
        Some(open::count_of(line, place.tag))
    }

    /// Open connections of each key, by the host's sockets, under the limit with this index.
    pub fn by_key(&self, index: usize) -> Result<Vec<(SourceKey, u64)>> {
        let sockets = sockets::all().failed("reading the host's sockets")?;
        let mut keys = HashMap::<SourceKey, u64>::new();
        let Some(limit) = self.config.limits.get(index) else {
            return Ok(Vec::new());
        };
        for socket in sockets.iter().filter(|socket| self.serves(socket.port)) {
            if let Some(peer) = socket.peer
                && self.place(index, peer, socket.port).is_some()
            {
                let (peer, nat64) = (address(peer), &self.config.nat64);
                let key = limit.mask.key(limit.slot, &peer, socket.port, nat64);
                *keys.entry(key).or_default() += 1;
            }
        }
        Ok(keys.into_iter().collect())
    }

    fn place(&self, index: usize, peer: IpAddr, port: u16) -> Option<(Place, Bound)> {
        let index = u32::try_from(index).ok()?;
        open::place_of(&self.config, index, &address(peer), port)
    }

    fn bound(&self, index: usize) -> Option<Bound> {
        let bound = self.config.bounds.of_limits.get(index).copied();
        bound.filter(|bound| bound.most != 0)
    }

    /// The bounds of all limits.
    fn bounds(&self) -> impl Iterator<Item = Bound> {
        let bounds = self.config.bounds.of_limits.into_iter();
        bounds.filter(|bound| bound.most != 0)
    }

    fn region(&self, bound: Bound) -> std::ops::Range<u32> {
        let first = FIRST_REGION + bound.region * self.config.bounds.lines;
        first..first + self.config.bounds.lines
    }

    /// Corrects the counts by the host's sockets.
    pub fn correct(&self) -> Result<()> {
        self.correct_by(sockets::all)
            .failed("reading the host's sockets")
    }

    /// Corrects the counts by lists of sockets. A line that changes while a list is made is compared with the next list.
    /// After several of them, it takes the last one.
    fn correct_by(&self, list: impl Fn() -> io::Result<Vec<TcpSocket>>) -> io::Result<()> {
        let changes = |number: u32| self.line(number).map_or(0, |line| load(line.word(0)));
        let regions = self.bounds().flat_map(|bound| self.region(bound));
        let mut left: Vec<(u32, u64)> = regions.map(|number| (number, changes(number))).collect();
        for pass in 1..=PASSES {
            let mut wanted = self.wanted(&list()?);
            left.retain(|(number, before)| {
                let counts = wanted.remove(number).unwrap_or_default();
                let is_last = pass == PASSES;
                if changes(*number) != *before && !is_last {
                    return true;
                }
                self.set_line(*number, counts);
                changes(*number) != *before
            });
            if left.is_empty() {
                break;
            }
            for (number, before) in &mut left {
                *before = changes(*number);
            }
        }
        Ok(())
    }

    /// The counts that each line should have, by tag.
    fn wanted(&self, sockets: &[TcpSocket]) -> BTreeMap<u32, BTreeMap<u64, u64>> {
        for listener in sockets.iter().filter(|socket| socket.peer.is_none()) {
            self.serve(listener.port);
        }
        let mut wanted = BTreeMap::<u32, BTreeMap<u64, u64>>::new();
        for socket in sockets.iter().filter(|socket| self.serves(socket.port)) {
            let Some(peer) = socket.peer else { continue };
            for index in 0..self.config.bounds.of_limits.len() {
                if let Some((place, _)) = self.place(index, peer, socket.port) {
                    let line = wanted.entry(place.line).or_default();
                    *line.entry(place.tag).or_default() += 1;
                }
            }
        }
        wanted
    }

    /// Notes that peers connect to this port.
    fn serve(&self, port: u16) {
        let (number, index, bit) = port_place(port);
        let Some(line) = self.line(number) else {
            return;
        };
        loop {
            let ports = load(line.word(index));
            if ports & bit != 0 || Word::swap(line.word(index), ports, ports | bit) {
                return;
            }
        }
    }

    fn serves(&self, port: u16) -> bool {
        let (number, index, bit) = port_place(port);
        let line = self.line(number);
        line.is_some_and(|line| load(line.word(index)) & bit != 0)
    }

    /// Gives each word of a line its count. What the kernel changes meanwhile stays.
    fn set_line(&self, number: u32, mut counts: BTreeMap<u64, u64>) {
        let Some(line) = self.line(number) else {
            return;
        };
        let region = (number - FIRST_REGION) / self.config.bounds.lines;
        let bound = self.bounds().find(|bound| bound.region == region);
        let most = bound.map_or(0, |bound| bound.most);
        let set = |index: u32, before: u64, after: u64| {
            if before == after || !Word::swap(line.word(index), before, after) {
                return before == after;
            }
            let change = change_of_full(count(before), count(after), most);
            if let Some(full) = self.total(FULL).filter(|_| change != 0) {
                Word::add(full, change);
            }
            true
        };
        for index in 1..WORDS {
            let before = load(line.word(index));
            if before != 0 {
                let wanted = counts.remove(&tag(before)).unwrap_or(0);
                let after = if wanted == 0 { 0 } else { tag(before) | wanted };
                set(index, before, after);
            }
        }
        for (tag, wanted) in counts {
            let is_set =
                (1..WORDS).any(|index| load(line.word(index)) == 0 && set(index, 0, tag | wanted));
            if !is_set && let Some(lost) = self.total(LOST) {
                Word::add(lost, wanted);
            }
        }
    }
}

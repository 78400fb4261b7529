//! The program's maps. Their names and shapes are part of [`limiter_common::abi::VERSION`].

use aya_ebpf::{
    bindings::{BPF_F_MMAPABLE, BPF_F_NO_PREALLOC},
    btf_maps::{
        Array, ArrayOfMaps, HashMap, LpmTrie, PerCpuArray, ProgramArray, RingBuf, lpm_trie::Key,
    },
    macros::btf_map,
};
use limiter_common::{
    abi::{
        Ban, BanKey, Cpu, LOCKS, Lease, PrefixBans, Set, Share, Table,
        counters::{Count, Counters, LimitCounters},
        events::{EVENTS_BYTES, Event, SNAP_MAX, Switches, WATCHERS, Watched},
        log::Logging,
        rules::{LISTS_MAX, ROWS},
    },
    open::WORDS as LINE,
    policy::{
        Evaluation,
        connection::{LOOKUPS as PLACES, Lookup},
        datagram::Datagram,
        handshake::Segment,
        second_chance::WORDS,
    },
    table::key::SLOTS,
};

/// The table. The loader sets the number of sets. User space maps it; values of mapped arrays begin at a page, so that
/// a set is one whole cache line.
#[btf_map]
pub static SETS: Array<Set, 1, { BPF_F_MMAPABLE as usize }> = Array::new();

/// The [`limiter_common::table::Overflow`] bytes of all sets. The loader sets the number of words.
#[btf_map]
pub static OVERFLOW: Array<u64, 1> = Array::new();

/// Locks for new sources, held while a CPU adds a source.
#[btf_map]
pub static LOCKED: Array<u64, { LOCKS as usize }> = Array::new();

/// State of the whole table.
#[btf_map]
pub static TABLE: Array<Table, 1> = Array::new();

/// Each limit's part of the table and of the new-source limit, by slot; behind them, those of the other budgets.
#[btf_map]
pub static SHARES: Array<Share, { ROWS as usize }> = Array::new();

/// The [`limiter_common::arithmetic::scale`] of each adaptive limit, by slot. A process in user space writes it.
#[btf_map]
pub static SCALES: Array<u64, { SLOTS as usize }> = Array::new();

/// Each CPU's leases of new-source tokens for each limit, by slot; behind them, those of the other budgets.
#[btf_map]
pub static LEASES: PerCpuArray<Lease, { ROWS as usize }> = PerCpuArray::new();

/// New sources that were refused. The loader sets the number of lines. Values of mapped arrays begin at a page, so that
/// a line is one whole cache line.
#[btf_map]
pub static REFUSED: Array<[u32; WORDS as usize], 1, { BPF_F_MMAPABLE as usize }> = Array::new();

/// Counters of each CPU for the fast path and the full path.
#[btf_map]
pub static COUNTED: PerCpuArray<Counters, 2> = PerCpuArray::new();

/// Counters of each CPU for each limit, by slot. For the full path only.
#[btf_map]
pub static LIMITS: PerCpuArray<LimitCounters, { SLOTS as usize }> = PerCpuArray::new();

/// Each CPU's state. Not pinned.
#[btf_map]
pub static CPUS: PerCpuArray<State, 1> = PerCpuArray::new();

/// State of one CPU. Another packet of the CPU does not interrupt the program, because softirqs are disabled while it
/// runs.
#[repr(C)]
pub struct State {
    /// The last reading of the clock.
    pub clock: Cpu,
    /// State of the full path for the packet: the stack has no room for it.
    pub evaluation: Evaluation,
    /// The headers of a new source that may prove its address.
    pub segment: Segment,
    /// The event to emit.
    pub event: Event,
    /// The first bytes of its packet. They follow the event in the ring buffer, too.
    pub copied: [u64; SNAP_MAX as usize / size_of::<u64>()],
    /// The datagram of a source that may prove its address.
    pub datagram: Datagram,
}

/// Each CPU's last lookups among the host's sockets. Not pinned. The loader leaves one place if no connection is exempt.
#[btf_map]
pub static LOOKUPS: PerCpuArray<Lookup, { PLACES as usize }> = PerCpuArray::new();

/// The open connections of each key. Each generation with a bound has its own. The loader leaves one line if no limit bounds
/// connections.
#[btf_map]
pub static OPEN: Array<[u64; LINE as usize], 1, { BPF_F_MMAPABLE as usize }> = Array::new();

/// Each CPU's counts of packets from sources on a list, by the list's bit.
#[btf_map]
pub static LIST_HITS: PerCpuArray<Count, { LISTS_MAX as usize }> = PerCpuArray::new();

/// Numbers of bans, and the watching processes with their filters. User space maps it.
#[btf_map]
pub static SWITCHES: Array<Switches, 1, { BPF_F_MMAPABLE as usize }> = Array::new();

/// Each CPU's budget of events and count of lost events, by the watch's place.
#[btf_map]
pub static WATCHED: PerCpuArray<Watched, { WATCHERS as usize }> = PerCpuArray::new();

/// Events of packets: the ring buffer of each watching process, which makes it, by the watch's place.
#[btf_map]
pub static EVENTS: ArrayOfMaps<RingBuf<(), { EVENTS_BYTES as usize }>, { WATCHERS as usize }> =
    ArrayOfMaps::new();

/// Each CPU's state of the log. Pinned while a log runs.
#[btf_map]
pub static LOGGED: PerCpuArray<Logging, 1> = PerCpuArray::new();

/// Messages of the log, under the name that aya-log looks for. Pinned while a log runs: the loader then makes it larger.
#[btf_map]
pub static AYA_LOGS: RingBuf<(), 4096> = RingBuf::new();

/// The lists, and their [`limiter_common::index`]. Each change of the lists creates a new map, which user space maps and
/// fills. The loader sets the number of words.
#[btf_map]
pub static LISTED: Array<u64, 1, { BPF_F_MMAPABLE as usize }> = Array::new();

/// Banned addresses. User space adds and removes them. The loader sets the number of entries.
#[btf_map]
pub static BANS: HashMap<Key<[u32; 4]>, PrefixBans, 1, { BPF_F_NO_PREALLOC as usize }> =
    HashMap::new();

/// Banned prefixes of several addresses.
#[btf_map]
pub static BANNED_PREFIXES: LpmTrie<[u32; 4], PrefixBans, 1> = LpmTrie::new();

/// The bans of each prefix, one for each origin. For user space only: the program sees them together.
#[btf_map]
pub static BANS_BY_ORIGIN: HashMap<BanKey, Ban, 1, { BPF_F_NO_PREALLOC as usize }> = HashMap::new();

/// Programs for tail calls: the chained program, and the fallback of a trial at one of two indices.
#[btf_map]
pub static NEXT: ProgramArray<3> = ProgramArray::new();

/// [`NEXT`] for programs with multi-buffer packets: the kernel refuses mixed kinds.
#[btf_map]
pub static NEXT_FRAGS: ProgramArray<3> = ProgramArray::new();

//! The program's maps. Their names and shapes are part of [`limiter_common::abi::VERSION`].

use aya_ebpf::{
    bindings::BPF_F_MMAPABLE,
    btf_maps::{Array, LpmTrie, PerCpuArray, ProgramArray, RingBuf},
    macros::btf_map,
};
use limiter_common::{
    abi::{
        Cpu, LOCKS, Lease, Listed, Set, Share, Table,
        counters::{Count, Counters, LimitCounters},
        events::{EVENTS_BYTES, Watch, Watched},
        rules::LISTS_MAX,
    },
    policy::Evaluation,
    table::key::SLOTS,
};

/// The table. The loader sets the number of sets, and lets user space map it: values of such a map begin on
/// a page, so that a set is two whole cache lines.
#[btf_map]
pub static SETS: Array<Set, 1, { BPF_F_MMAPABLE as usize }> = Array::new();

/// Number of sources of each set that are in other sets. The loader sets the number of words.
#[btf_map]
pub static DISPLACED: Array<u64, 1> = Array::new();

/// Locks for new sources, taken while a CPU brings a source in.
#[btf_map]
pub static LOCKED: Array<u64, { LOCKS as usize }> = Array::new();

/// The table as a whole.
#[btf_map]
pub static TABLE: Array<Table, 1> = Array::new();

/// Each limit's part of the table and of the new-source limit, by slot.
#[btf_map]
pub static SHARES: Array<Share, { SLOTS as usize }> = Array::new();

/// Leases of new sources of each CPU for each limit, by slot.
#[btf_map]
pub static LEASES: PerCpuArray<Lease, { SLOTS as usize }> = PerCpuArray::new();

/// Counters of each CPU: on the fast path and on the full path.
#[btf_map]
pub static COUNTED: PerCpuArray<Counters, 2> = PerCpuArray::new();

/// Counters of each CPU for each limit, by slot; on the full path only.
#[btf_map]
pub static LIMITS: PerCpuArray<LimitCounters, { SLOTS as usize }> = PerCpuArray::new();

/// Each CPU's own state: its last reading of the clock.
#[btf_map]
pub static CPUS: PerCpuArray<Cpu, 1> = PerCpuArray::new();

/// State of the full path for the packet that this CPU is at work on: the stack has no room for it. Not pinned. A
/// program is never interrupted by another packet of the same CPU: softirqs are disabled while it runs.
#[btf_map]
pub static PACKET: PerCpuArray<Evaluation, 1> = PerCpuArray::new();

/// Packets from sources on a list, by each CPU, by the list's bit.
#[btf_map]
pub static LIST_HITS: PerCpuArray<Count, { LISTS_MAX as usize }> = PerCpuArray::new();

/// Whether a process watches, and what. User space maps it.
#[btf_map]
pub static WATCH: Array<Watch, 1, { BPF_F_MMAPABLE as usize }> = Array::new();

/// Each CPU's budget of events, and its count of lost ones.
#[btf_map]
pub static WATCHED: PerCpuArray<Watched, 1> = PerCpuArray::new();

/// Events of drops, for the process that watches.
#[btf_map]
pub static EVENTS: RingBuf<(), { EVENTS_BYTES as usize }> = RingBuf::new();

/// Prefixes that are on lists. These and the next are made anew with each change of the lists. The second word of the
/// key is 0: values lie behind the key, and their counts must be aligned to eight bytes.
#[btf_map]
pub static LISTED_IPV4: LpmTrie<[u32; 2], Listed, 1> = LpmTrie::new();

/// Prefixes of IPv6 that are on lists.
#[btf_map]
pub static LISTED_IPV6: LpmTrie<[u32; 4], Listed, 1> = LpmTrie::new();

/// Programs that packets go on to: the one that limiter runs in front of, and the one that a trial falls back to.
#[btf_map]
pub static NEXT: ProgramArray<2> = ProgramArray::new();

/// [`NEXT`] for programs that take multi-buffer packets: the kernel keeps the kinds apart.
#[btf_map]
pub static NEXT_FRAGS: ProgramArray<2> = ProgramArray::new();

//! The program's maps. Their names and shapes are part of [`limiter_common::layout::VERSION`].

use aya_ebpf::btf_maps::{Array, HashMap, LpmTrie, PerCpuArray, ProgramArray};
use aya_ebpf::macros::btf_map;
use limiter_common::{
    counters::{Count, Counters, LimitCounters},
    key::{SLOTS, SourceKey},
    layout::{Cpu, Listed, Place, Source, Table},
    rules::LISTS_MAX,
};

/// The buckets. The loader sets the number of entries to the capacity.
#[btf_map]
pub static SOURCES: HashMap<SourceKey, Source, 1> = HashMap::new();

/// The places of the table, as many as `SOURCES` has entries.
#[btf_map]
pub static PLACES: Array<Place, 1> = Array::new();

/// What all CPUs do to the table.
#[btf_map]
pub static TABLE: Array<Table, 1> = Array::new();

/// What each CPU has counted: on the short way past one limit, and on the long way past several.
#[btf_map]
pub static COUNTERS: PerCpuArray<Counters, 2> = PerCpuArray::new();

/// What each CPU has counted for each limit, by slot; not on the short way.
#[btf_map]
pub static LIMITS: PerCpuArray<LimitCounters, { SLOTS as usize }> = PerCpuArray::new();

/// What each CPU keeps to itself: its last reading of the clock, and its lease of new sources.
#[btf_map]
pub static CPUS: PerCpuArray<Cpu, 1> = PerCpuArray::new();

/// Packets whose source is on a list, by each CPU, by the list's bit.
#[btf_map]
pub static LIST_HITS: PerCpuArray<Count, { LISTS_MAX as usize }> = PerCpuArray::new();

/// Prefixes that are on lists. These and the next are made anew with each change of the lists.
#[btf_map]
pub static LISTED_IPV4: LpmTrie<[u32; 1], Listed, 1> = LpmTrie::new();

/// The same of IPv6.
#[btf_map]
pub static LISTED_IPV6: LpmTrie<[u32; 4], Listed, 1> = LpmTrie::new();

/// The program that packets which pass go on to, where limiter runs in front of another one.
#[btf_map]
pub static NEXT: ProgramArray<1> = ProgramArray::new();

/// The same for programs that take multi-buffer packets: the kernel keeps the kinds apart.
#[btf_map]
pub static NEXT_FRAGS: ProgramArray<1> = ProgramArray::new();

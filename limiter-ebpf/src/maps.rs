//! The program's maps. Their names and shapes are part of [`limiter_common::layout::VERSION`].

use aya_ebpf::btf_maps::{Array, HashMap, PerCpuArray};
use aya_ebpf::macros::btf_map;
use limiter_common::{
    counters::Counters,
    key::SourceKey,
    layout::{Place, Source, Table},
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

/// What each CPU has counted.
#[btf_map]
pub static COUNTERS: PerCpuArray<Counters, 1> = PerCpuArray::new();

//! The program's constants, in a read-only section that user space fills before it loads the
//! program. The verifier knows their values and removes the branches that they switch off.

use limiter_common::{
    bucket::{PAST_TERMS, Rescale},
    key::KeyMask,
    layout::Config,
    limit::Terms,
};

/// Filled in by the loader under this name.
#[unsafe(no_mangle)]
static CONFIG: Config = Config {
    terms: Terms {
        tau: 0,
        cost: 0,
        cost_shift: 0,
        by_bytes: 0,
    },
    mask: KeyMask {
        interface: 0,
        ipv4: 0,
        ipv6: [0; 4],
    },
    capacity: 1,
    shadow: 0,
    malformed_passes: 0,
    clock: 0,
    epoch: 0,
    past_length: 0,
    past: [Rescale {
        since: 0,
        tau_from: 0,
        tau_to: 0,
        chunk_from: 1,
        chunk_to: 1,
        chunk_shift: 0,
        chunks_most: 0,
    }; PAST_TERMS as usize],
};

/// Reads one field of the constants, in a way that keeps the compiler from using its own idea of
/// their values.
macro_rules! constant {
    ($($field:tt)+) => {
        // SAFETY: a reference to a field of a static is aligned and initialised.
        unsafe { (&raw const CONFIG.$($field)+).read_volatile() }
    };
}

/// The limit.
#[inline(always)]
pub fn terms() -> Terms {
    Terms {
        tau: constant!(terms.tau),
        cost: constant!(terms.cost),
        cost_shift: constant!(terms.cost_shift),
        by_bytes: constant!(terms.by_bytes),
    }
}

/// Whether all sources share one bucket.
#[inline(always)]
pub fn keyed_by_interface() -> bool {
    constant!(mask.interface) != 0
}

/// What is kept of an IPv4 source.
#[inline(always)]
pub fn mask_ipv4() -> u32 {
    constant!(mask.ipv4)
}

/// What is kept of an IPv6 source.
#[inline(always)]
pub fn mask_ipv6() -> [u32; 4] {
    [
        constant!(mask.ipv6[0]),
        constant!(mask.ipv6[1]),
        constant!(mask.ipv6[2]),
        constant!(mask.ipv6[3]),
    ]
}

/// Places in the table.
#[inline(always)]
pub fn capacity() -> u32 {
    constant!(capacity)
}

/// Whether nothing is to be dropped.
#[inline(always)]
pub fn shadow() -> bool {
    constant!(shadow) != 0
}

/// Whether malformed IP is let through.
#[inline(always)]
pub fn malformed_passes() -> bool {
    constant!(malformed_passes) != 0
}

/// Where the time comes from.
#[inline(always)]
pub fn clock() -> u32 {
    constant!(clock)
}

/// How often the terms have changed.
#[inline(always)]
pub fn epoch() -> u32 {
    constant!(epoch)
}

/// How many changes of the terms are remembered.
#[inline(always)]
pub fn past_length() -> u32 {
    constant!(past_length)
}

/// A change of the terms, 0 the newest.
#[inline(always)]
pub fn past(index: u32) -> Option<Rescale> {
    // The verifier does not know the index, and checks it against the section's size.
    if index >= PAST_TERMS {
        return None;
    }
    // SAFETY: the index is in bounds. Volatile, like every read of the constants: the compiler would
    // put in what it knows of them, which is not what the loader has written.
    Some(unsafe {
        (&raw const CONFIG.past)
            .cast::<Rescale>()
            .add(index as usize)
            .read_volatile()
    })
}

//! The program's constants, in a read-only section that user space fills before it loads the program. The verifier
//! knows the values and removes the branches that they switch off.

use limiter_common::{
    abi::{
        Config,
        rules::{self, ANY, LIMITS_MAX, NONE, NewSourceQuota, PORTS_MAX, PortRange},
    },
    arithmetic::{
        quota::Quota,
        rescale::{PAST_QUOTAS, Rescale},
        window::Window,
    },
    policy::{self, Evaluation, candidates::ByByte},
    table::{
        Seed,
        key::{IPV6, KeyMask, SLOTS},
    },
};

/// Filled by the loader, under this name.
#[unsafe(no_mangle)]
static CONFIG: Config = Config::NONE;

/// Reads a field of the constants. Volatile, because the compiler would use the initial value.
macro_rules! read {
    ($pointer:expr, $($field:tt)+) => {
        // SAFETY: the pointer is into the constants, which are initialised, and the field aligned.
        unsafe { (&raw const (*$pointer).$($field)+).read_volatile() }
    };
}

macro_rules! constant {
    ($($field:tt)+) => {
        read!(&raw const CONFIG, $($field)+)
    };
}

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident: $type:ty),+ $(,)?) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name() -> $type {
            constant!($name)
        }
    )+};
}

macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name() -> bool {
            constant!($name) != 0
        }
    )+};
}

numbers! {
    /// Number of limits.
    limits_length: u32,
    /// Length of the kernel's tick, in nanoseconds; 0 if unknown.
    tick: u64,
    /// Entries of the table that limits share; 0: one limit has the whole table.
    room: u32,
    /// Number of sets of the table.
    sets: u32,
    /// Source of the time: [`limiter_common::abi::CLOCK_KERNEL`] or [`limiter_common::abi::CLOCK_PACKET`].
    clock: u32,
    /// End of the trial, in nanoseconds; 0: no trial.
    deadline: u64,
    /// Index of the program that packets go to after the deadline.
    after_deadline: u32,
}

flags! {
    /// Whether nothing is dropped.
    shadow,
    /// Whether packets that pass go to another program.
    chained,
    /// Whether malformed IP packets pass.
    malformed_passes,
    /// Whether lists have IPv4 prefixes.
    lists_ipv4,
    /// Whether lists have IPv6 prefixes.
    lists_ipv6,
    /// Whether limits use fields behind the fixed part of the IP header.
    transport,
    /// Whether control traffic has limits of its own.
    control,
    /// Whether packets of the host's established connections are exempt.
    established,
}

/// The new-source limit.
#[inline(always)]
pub fn new_sources() -> NewSourceQuota {
    NewSourceQuota {
        tau: constant!(new_sources.tau),
        cost: constant!(new_sources.cost),
        lease: constant!(new_sources.lease),
        own_tau: constant!(new_sources.own_tau),
        own_cost: constant!(new_sources.own_cost),
    }
}

/// The seed that assigns sources to sets.
#[inline(always)]
pub fn seed() -> Seed {
    Seed([
        constant!(seed.0[0]),
        constant!(seed.0[1]),
        constant!(seed.0[2]),
        constant!(seed.0[3]),
    ])
}

/// Index of the limit in this slot. None if the limit is gone.
#[inline(always)]
pub fn index_of(slot: u32) -> Option<u32> {
    if slot >= SLOTS {
        return None;
    }
    // SAFETY: the index is in bounds.
    let index = unsafe {
        (&raw const CONFIG.indices)
            .cast::<u32>()
            .add(slot as usize)
            .read_volatile()
    };
    (index < LIMITS_MAX).then_some(index)
}

/// Bits of the limits that may match the packet. See [`limiter_common::policy::candidates`].
#[inline(always)]
pub fn candidates(evaluation: &Evaluation) -> u64 {
    let info = &evaluation.info;
    let candidates = candidates_of_kind(info.control, info.source.family, info.fragment);
    if !transport() {
        return candidates;
    }
    let all = &raw const CONFIG.candidates;
    // SAFETY: fields of the constants.
    let (protocol, to, from) = unsafe {
        (
            &raw const (*all).protocol,
            &raw const (*all).destination,
            &raw const (*all).source,
        )
    };
    candidates
        & of_byte(protocol, info.protocol, info.protocol)
        & of_byte(to, info.destination_port, info.destination_port >> 8)
        & of_byte(from, info.source_port, info.source_port >> 8)
}

#[inline(always)]
fn candidates_of_kind(control: u32, family: u32, fragment: u32) -> u64 {
    let family = either(&raw const CONFIG.candidates.family, family == IPV6);
    let control = either(&raw const CONFIG.candidates.control, control != 0);
    let place = (fragment >> 1 & 3) as usize;
    // SAFETY: the index is in bounds.
    let fragments = unsafe {
        (&raw const CONFIG.candidates.fragments)
            .cast::<u64>()
            .add(place)
            .read_volatile()
    };
    control & family & fragments
}

/// Bits of the candidates that need not match.
#[inline(always)]
pub fn uncertain() -> u64 {
    constant!(candidates.uncertain)
}

/// The second of two words if `second`, otherwise the first.
#[inline(always)]
fn either(words: *const [u64; 2], second: bool) -> u64 {
    // SAFETY: the index is in bounds.
    unsafe { words.cast::<u64>().add(second.into()).read_volatile() }
}

/// Bits of the limits that may match a field with this value: all if it cannot be seen.
#[inline(always)]
fn of_byte(bytes: *const ByByte, value: u32, byte: u32) -> u64 {
    if value == ANY {
        return u64::MAX;
    }
    if value == NONE {
        return read!(bytes, without);
    }
    // SAFETY: the index is in bounds.
    unsafe {
        (&raw const (*bytes).with)
            .cast::<u64>()
            .add((byte & 0xff) as usize)
            .read_volatile()
    }
}

/// The limit with this index.
#[inline(always)]
pub fn limit(index: u32) -> Option<Limit> {
    // The verifier checks the index against the size of the section.
    if index >= LIMITS_MAX {
        return None;
    }
    // SAFETY: the index is in bounds.
    Some(Limit(unsafe {
        (&raw const CONFIG.limits)
            .cast::<rules::Limit>()
            .add(index as usize)
    }))
}

/// The policy's environment in the kernel.
pub struct Kernel;

/// Implements methods by the functions of this file.
macro_rules! constants {
    ($($name:ident($($index:ident)?) -> $type:ty;)+) => {$(
        #[inline(always)]
        fn $name(&self $(, $index: u32)?) -> $type {
            $name($($index)?)
        }
    )+};
}

impl policy::Constants for Kernel {
    type Limit = Limit;

    constants! {
        limit(index) -> Option<Limit>;
        limits_length() -> u32;
        index_of(slot) -> Option<u32>;
        shadow() -> bool;
        malformed_passes() -> bool;
        control() -> bool;
        transport() -> bool;
        room() -> u32;
        established() -> bool;
    }
}

/// A limit in the constants.
#[derive(Clone, Copy)]
pub struct Limit(*const rules::Limit);

impl Limit {
    /// Number of stored changes of its quota.
    #[inline(always)]
    pub fn past_length(self) -> u32 {
        read!(self.0, past_length)
    }

    /// A change of its quota; index 0 is the newest.
    #[inline(always)]
    pub fn past(self, index: u32) -> Option<Rescale> {
        if index >= PAST_QUOTAS {
            return None;
        }
        // SAFETY: the index is in bounds.
        Some(unsafe {
            (&raw const (*self.0).past)
                .cast::<Rescale>()
                .add(index as usize)
                .read_volatile()
        })
    }
}

macro_rules! fields {
    ($($name:ident),+ $(,)?) => {$(
        #[inline(always)]
        fn $name(self) -> u32 {
            read!(self.0, $name)
        }
    )+};
}

impl policy::Limit for Limit {
    type Match = Match;

    fields! { slot, epoch }

    #[inline(always)]
    fn matches(self) -> Match {
        // SAFETY: a field of the constants.
        Match(unsafe { &raw const (*self.0).matches })
    }

    #[inline(always)]
    fn quota(self) -> Quota {
        Quota {
            tau: read!(self.0, quota.tau),
            cost: read!(self.0, quota.cost),
            cost_shift: read!(self.0, quota.cost_shift),
            flags: read!(self.0, quota.flags),
            window: Window {
                period: read!(self.0, quota.window.period),
                phase: read!(self.0, quota.window.phase),
                grant: read!(self.0, quota.window.grant),
            },
        }
    }

    #[inline(always)]
    fn mask(self) -> KeyMask {
        KeyMask {
            ipv4: [read!(self.0, mask.ipv4[0]), 0],
            ipv6: [read!(self.0, mask.ipv6[0]), read!(self.0, mask.ipv6[1])],
            interface: read!(self.0, mask.interface),
            port: read!(self.0, mask.port),
            link_local: read!(self.0, mask.link_local),
            reserved: 0,
        }
    }

    #[inline(always)]
    fn shadow(self) -> bool {
        read!(self.0, shadow) != 0
    }

    #[inline(always)]
    fn share(self) -> u64 {
        read!(self.0, share).into()
    }

    #[inline(always)]
    fn borrows(self) -> bool {
        read!(self.0, borrows) != 0
    }
}

/// The packets that a limit matches.
#[derive(Clone, Copy)]
pub struct Match(*const rules::Match);

impl policy::Match for Match {
    type Ports = Ports;

    limiter_common::match_fields!(fields);

    #[inline(always)]
    fn destination(self) -> Ports {
        // SAFETY: a field of the constants.
        Ports(unsafe { &raw const (*self.0).destination })
    }

    #[inline(always)]
    fn source(self) -> Ports {
        // SAFETY: a field of the constants.
        Ports(unsafe { &raw const (*self.0).source })
    }
}

/// Source or destination ports of a limit.
#[derive(Clone, Copy)]
pub struct Ports(*const rules::Ports);

impl policy::Ports for Ports {
    #[inline(always)]
    fn length(self) -> u32 {
        read!(self.0, length)
    }

    #[inline(always)]
    fn range(self, index: u32) -> Option<PortRange> {
        // Hides the index from the compiler, which would otherwise advance a pointer through the ranges, without a
        // bound that the verifier of Linux 6.1 sees.
        // SAFETY: a local value.
        let index = unsafe { (&raw const index).read_volatile() };
        if index as usize >= PORTS_MAX {
            return None;
        }
        // SAFETY: the index is in bounds.
        Some(unsafe {
            (&raw const (*self.0).ranges)
                .cast::<PortRange>()
                .add(index as usize)
                .read_volatile()
        })
    }
}

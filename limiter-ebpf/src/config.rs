//! The program's constants, in a read-only section that user space fills before it loads the program. The verifier
//! knows the values and removes the branches that they switch off.

use limiter_common::{
    abi::{
        Config,
        rules::{self, ANY, NONE, PortRange},
    },
    arithmetic::{quota::Quota, rescale::Rescale, window::Window},
    policy::{self, Evaluation, candidates::ByByte},
    table::{
        Seed,
        key::{IPV6, KeyMask},
    },
};

/// Filled by the loader, under this name. [`constant!`] reads its fields.
#[unsafe(no_mangle)]
pub static CONFIG: Config = Config::NONE;

/// Reads a field of the constants or of a map value once. Volatile, because the compiler would use the initial value of
/// a constant, and user space may write a map value at any time.
macro_rules! read {
    ($pointer:expr, $($field:tt)+) => {
        // SAFETY: the pointer is to the constants or to a map value, which are initialised, and the field aligned.
        unsafe { (&raw const (*$pointer).$($field)+).read_volatile() }
    };
}

/// Reads a field of the constants; see [`Config`].
macro_rules! constant {
    ($($field:tt)+) => {
        $crate::config::read!(&raw const $crate::config::CONFIG, $($field)+)
    };
}

pub(crate) use {constant, read};

/// The value of [`Config::after_deadline`].
#[inline(always)]
pub fn after_deadline() -> u32 {
    constant!(after_deadline)
}

/// The value of [`Config::clock`].
#[inline(always)]
pub fn clock() -> u32 {
    constant!(clock)
}

/// True if a program of another owner runs after this one.
#[inline(always)]
pub fn is_chained() -> bool {
    constant!(chained) != 0
}

/// Number of sets of the table.
#[inline(always)]
pub fn sets() -> u32 {
    constant!(sets)
}

/// A pointer to a field of the constants.
macro_rules! field {
    ($pointer:expr, $field:ident) => {
        // SAFETY: a field of the constants.
        unsafe { &raw const (*$pointer).$field }
    };
}

/// A pointer to an element of an array of the constants. None if there is no such element. The verifier checks the
/// index against the size of the section.
#[inline(always)]
fn element<T, const LENGTH: usize>(array: *const [T; LENGTH], index: u32) -> Option<*const T> {
    // SAFETY: the index is in bounds.
    (index < LENGTH as u32).then(|| unsafe { array.cast::<T>().add(index as usize) })
}

/// Reads an element of an array of the constants.
#[inline(always)]
fn read_element<T, const LENGTH: usize>(array: *const [T; LENGTH], index: u32) -> Option<T> {
    // SAFETY: an element of the constants.
    element(array, index).map(|element| unsafe { element.read_volatile() })
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
    let index = read_element(&raw const CONFIG.indices, slot)?;
    (index < rules::LIMITS_MAX).then_some(index)
}

/// The limit with this index.
#[inline(always)]
pub fn limit(index: u32) -> Option<Limit> {
    element(&raw const CONFIG.limits, index).map(Limit)
}

/// Bits of the limits that may match the packet. See [`limiter_common::policy::candidates`].
#[inline(always)]
pub fn candidates(evaluation: &Evaluation) -> u64 {
    let info = &evaluation.info;
    let all = &raw const CONFIG.candidates;
    let of_kind = word(field!(all, family), (info.source.family == IPV6).into())
        & word(field!(all, control), (info.control != 0).into())
        & word(field!(all, fragments), info.fragment >> 1 & 3);
    if constant!(transport) == 0 {
        return of_kind;
    }
    of_kind
        & of_byte(field!(all, protocol), info.protocol, info.protocol)
        & of_byte(
            field!(all, destination),
            info.destination_port,
            info.destination_port >> 8,
        )
        & of_byte(field!(all, source), info.source_port, info.source_port >> 8)
}

#[inline(always)]
fn word<const LENGTH: usize>(words: *const [u64; LENGTH], index: u32) -> u64 {
    read_element(words, index).unwrap_or(0)
}

/// Bits of the limits that may match a field with this value: all if it cannot be seen.
#[inline(always)]
fn of_byte(bytes: *const ByByte, value: u32, byte: u32) -> u64 {
    match value {
        ANY => u64::MAX,
        NONE => read!(bytes, without),
        _ => word(field!(bytes, with), byte & 0xff),
    }
}

/// The policy's environment in the kernel.
pub struct Kernel;

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
        read_element(field!(self.0, past), index)
    }
}

/// Implements methods that read a field.
macro_rules! fields {
    ($($name:ident),+) => {
        fields! { constants; $($name: u32 = read!(constants, $name);)+ }
    };
    ($constants:ident; $($name:ident: $type:ty = $value:expr;)+) => {$(
        #[inline(always)]
        fn $name(self) -> $type {
            let $constants = self.0;
            $value
        }
    )+};
}

impl policy::Limit for Limit {
    type Match = Match;

    fields! { limit;
        matches: Match = Match(field!(limit, matches));
        slot: u32 = read!(limit, slot);
        shadow: bool = read!(limit, shadow) != 0;
        epoch: u32 = read!(limit, epoch);
        share: u64 = read!(limit, share).into();
        borrows: bool = read!(limit, borrows) != 0;
        quota: Quota = Quota {
            tau: read!(limit, quota.tau),
            cost: read!(limit, quota.cost),
            cost_shift: read!(limit, quota.cost_shift),
            flags: read!(limit, quota.flags),
            window: Window {
                period: read!(limit, quota.window.period),
                phase: read!(limit, quota.window.phase),
                grant: read!(limit, quota.window.grant),
            },
        };
        mask: KeyMask = KeyMask {
            ipv4: [read!(limit, mask.ipv4[0]), 0],
            ipv6: [read!(limit, mask.ipv6[0]), read!(limit, mask.ipv6[1])],
            interface: read!(limit, mask.interface),
            port: read!(limit, mask.port),
            link_local: read!(limit, mask.link_local),
            reserved: 0,
        };
    }
}

/// The packets that a limit matches.
#[derive(Clone, Copy)]
pub struct Match(*const rules::Match);

impl policy::Match for Match {
    type Ports = Ports;

    limiter_common::match_fields!(fields);
    fields! { matches;
        destination: Ports = Ports(field!(matches, destination));
        source: Ports = Ports(field!(matches, source));
    }
}

/// Source or destination ports of a limit.
#[derive(Clone, Copy)]
pub struct Ports(*const rules::Ports);

impl policy::Ports for Ports {
    fields! { length }

    #[inline(always)]
    fn range(self, index: u32) -> Option<PortRange> {
        // Hides the index from the compiler, which would otherwise advance a pointer through the ranges, without a
        // bound that the verifier of Linux 6.1 sees.
        // SAFETY: a local value.
        let index = unsafe { (&raw const index).read_volatile() };
        read_element(field!(self.0, ranges), index)
    }
}

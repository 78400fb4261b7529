//! The constants of a generation.

use super::rules::{LIMITS_MAX, Limit, NewSourceQuota};
use crate::{
    policy::candidates::Candidates,
    table::{Seed, key::SLOTS},
};

/// Version of the constants and of the pinned maps. For the steps of an increase see ARCHITECTURE.md, "Layouts".
pub const VERSION: u32 = 8;

/// Value of [`Config::clock`]: the program reads the kernel's clock.
pub const CLOCK_KERNEL: u32 = 0;
/// The packet brings its own time as [`Stamp`] metadata: for tests and for replay.
pub const CLOCK_PACKET: u32 = 1;

/// Index in the program arrays of the program that limiter runs in front of.
pub const NEXT_FOREIGN: u32 = 0;
/// Index in the program arrays of the program that a trial falls back to.
pub const NEXT_FALLBACK: u32 = 1;

/// Value in [`Config::indices`] of a slot that no limit has.
pub const NO_LIMIT: u32 = u32::MAX;

/// The program's constants: set once before it is loaded, so that the verifier removes the code of
/// what they switch off. A change of them is a new program over the same maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Config {
    /// The limits, in the order in which they are looked at.
    pub limits: [Limit; LIMITS_MAX as usize],
    /// Tells the limits that may match a packet.
    pub candidates: Candidates,
    /// The limit on new sources.
    pub new_sources: NewSourceQuota,
    /// The seed that assigns sources to sets.
    pub seed: Seed,
    /// The kernel's tick in nanoseconds, after which `jiffies` goes up; 0: always read the clock.
    pub tick: u64,
    /// End of the trial of this program, in nanoseconds of the kernel's clock; 0: it is not on trial.
    pub deadline: u64,
    /// Index of the limit that has a slot; [`NO_LIMIT`] if there is none.
    pub indices: [u32; SLOTS as usize],
    /// Limits in use.
    pub limits_length: u32,
    /// 1: the first limit is the only one, holds every IP packet, drops packets over it, and has slot 0;
    /// and there are neither lists nor control traffic. Tells the loader which entry to take.
    pub plain: u32,
    /// Sets of the table: an even number; at least 2.
    pub sets: u32,
    /// 1: charge and count as always, but drop nothing.
    pub shadow: u32,
    /// 1: let malformed IP through.
    pub malformed_passes: u32,
    /// [`CLOCK_KERNEL`] or [`CLOCK_PACKET`].
    pub clock: u32,
    /// 1: there are prefixes of IPv4 on lists.
    pub lists_ipv4: u32,
    /// 1: there are prefixes of IPv6 on lists.
    pub lists_ipv6: u32,
    /// 1: limits look behind the IP header's fixed part.
    pub transport: u32,
    /// 1: control traffic is told apart.
    pub control: u32,
    /// 1: packets that would be dropped are looked up among the host's sockets.
    pub established: u32,
    /// Entries of the table that limits share; 0: there is one limit, which has them all.
    pub room: u32,
    /// 1: packets that pass go on to the program at [`NEXT_FOREIGN`].
    pub chained: u32,
    /// The index of the program that packets go to after the deadline. No program at [`NEXT_FOREIGN`]: they pass.
    pub after_deadline: u32,
}

impl Config {
    /// No limit.
    pub const NONE: Self = Self {
        limits: [Limit::NONE; LIMITS_MAX as usize],
        candidates: Candidates::NONE,
        new_sources: NewSourceQuota {
            tau: 0,
            cost: 0,
            lease: 1,
            own_tau: 0,
            own_cost: 0,
        },
        seed: Seed::KNOWN,
        tick: 0,
        deadline: 0,
        indices: [NO_LIMIT; SLOTS as usize],
        limits_length: 0,
        plain: 0,
        sets: 2,
        shadow: 0,
        malformed_passes: 0,
        clock: CLOCK_KERNEL,
        lists_ipv4: 0,
        lists_ipv6: 0,
        transport: 0,
        control: 0,
        established: 0,
        room: 0,
        chained: 0,
        after_deadline: NEXT_FOREIGN,
    };
}

//! The constants of a generation.

use super::{
    connections::Bounds,
    routes::{ROUTES_MAX, Route},
    rules::{BUDGETS, FIRST, LIMITS_MAX, Limit, NEEDS_CONNECTION, NewSourceQuota, PROVEN, SECOND},
};
use crate::{
    index::Index,
    pod::{Pod as _, pod},
    policy::candidates::Candidates,
    table::{Seed, key::SLOTS, nat64::Nat64},
};

/// Version of the constants and of the pinned maps, called *layout* in docs/attachment.md.
pub const VERSION: u32 = 20;

/// Value of [`Constants::clock`]: the program reads the kernel's clock.
pub const CLOCK_KERNEL: u32 = 0;
/// Value of [`Constants::clock`]: the packet has its time in a [`super::Stamp`] in front of it. For tests and replay.
pub const CLOCK_PACKET: u32 = 1;

/// Index in the program arrays of the program that limiter runs in front of.
pub const NEXT_FOREIGN: u32 = 0;
/// Indices in the program arrays of the program that a trial falls back to. A change during a trial uses the index that the
/// running program does not: so one step, the swap of the link, changes both the limits now and those after the trial.
pub const NEXT_FALLBACK: [u32; 2] = [1, 2];

/// Value in [`Constants::indices`] of a slot without a limit.
pub const NO_LIMIT: u32 = u32::MAX;

/// The program's constants. User space sets them before it loads the program, so that the verifier removes the code
/// that they switch off. A change loads a new program over the same maps. The small ones come first: an instruction of
/// BPF reaches 32 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Constants {
    /// Number of limits.
    pub limits_length: u32,
    /// 1: the loader takes the fast path. There is one limit, in slot 0, without shadow, which matches every IP packet;
    /// there are no lists, and control traffic is not exempt.
    pub fast_path: u32,
    /// Number of sets of the table: even, at least 2.
    pub sets: u32,
    /// 1: charge and count, but drop nothing.
    pub shadow: u32,
    /// 1: pass malformed IP packets.
    pub malformed_passes: u32,
    /// [`CLOCK_KERNEL`] or [`CLOCK_PACKET`].
    pub clock: u32,
    /// 1: lists have IPv4 prefixes.
    pub lists_ipv4: u32,
    /// 1: lists have IPv6 prefixes.
    pub lists_ipv6: u32,
    /// Bits of what limits use of a packet, as [`super::rules::NEEDS_TRANSPORT`].
    pub needs: u32,
    /// 1: control traffic has limits of its own.
    pub control: u32,
    /// 1: packets of the host's established connections are exempt.
    pub established: u32,
    /// Entries of the table that limits share; 0: one limit has the whole table.
    pub room: u32,
    /// 1: the loader takes the program for the network stack.
    pub tc: u32,
    /// 1: packets begin with the IP header. For the network stack only.
    pub no_ethernet: u32,
    /// 1: the program sees what the interface sends: lists and connections are those of the destination.
    pub egress: u32,
    /// Bans that the maps have room for, one for each prefix and origin; 0: there are no bans.
    pub bans: u32,
    /// 1: some packets need more than their verdict: they go on to another program, get an answer, or are reported.
    pub follow_up: u32,
    /// Index of the program that packets go to after the deadline. Without a program at [`NEXT_FOREIGN`], they pass.
    pub after_deadline: u32,
    /// The limit on new sources.
    pub new_sources: NewSourceQuota,
    /// The limit on new sources that were refused and come again; a cost of 0: they have no second chance.
    pub second_chances: NewSourceQuota,
    /// The limit on new sources that have proven their address.
    pub proofs: NewSourceQuota,
    /// The limit on answers that ask for a proof.
    pub answers: NewSourceQuota,
    /// Limits whose new sources may prove their address in any way, by index.
    pub proof: u64,
    /// The interface's address, in the first six bytes in memory: packets to another one are not answered.
    pub mac: u64,
    /// The seed that assigns sources to sets.
    pub seed: Seed,
    /// Nanoseconds after which the kernel increments `jiffies`; 0: always read the clock.
    pub tick: u64,
    /// End of this program's trial, in nanoseconds of the kernel's clock; 0: no trial.
    pub deadline: u64,
    /// Index of the limit in each slot, or [`NO_LIMIT`].
    pub indices: [u32; SLOTS as usize],
    /// The limits, in the order of evaluation.
    pub limits: [Limit; LIMITS_MAX as usize],
    /// Selects the limits that may match a packet.
    pub candidates: Candidates,
    /// 1: the kernel has helpers that copy a packet's bytes (Linux 5.18).
    pub can_copy: u32,
    /// 1: packets that pass go to the program at [`NEXT_FOREIGN`].
    pub chained: u32,
    /// The host's addresses and routes, for answers. The first prefix that has an address decides.
    pub routes: [Route; ROUTES_MAX as usize],
    /// Index of the interface through which the way back to an IPv4 source must lead (`rp_filter = 1`), if its packet is to be
    /// answered; 0: any.
    pub way_back: u64,
    /// 1: packets come from a virtual machine or a process, which may forge the kernel's number of packets in a merged one.
    /// For the network stack only.
    pub guest: u32,
    /// The level up to which the program reports ([`super::log`]); 0: it reports nothing.
    pub log: u32,
    /// The prefixes of translators from IPv4 to IPv6.
    pub nat64: Nat64,
    /// Bit of the list of throttled sources, to which bans may add some; 0: there is none.
    pub throttled: u32,
    /// 1: packets that pass are shown to who watches them.
    pub passed: u32,
    /// The index of the lists. The loader sets it.
    pub index: Index,
    /// Bits of what no limit has, as [`super::rules::NO_BYTES`]; 0: not known. The loader sets it.
    pub absent: u32,
    /// By index: of so many refused questions of DNS, each CPU answers one.
    pub slips: [u32; LIMITS_MAX as usize],
    /// The bounds on open connections.
    pub bounds: Bounds,
    /// Limits whose new sources may prove their address by a TCP handshake, by index.
    pub handshakes: u64,
    /// Limits that answer questions of DNS, so that they come again over TCP, by index.
    pub truncates: u64,
    /// Limits whose new sources may prove their address by a challenge of Valve's server queries, by index.
    pub challenges: u64,
}

pod!(Constants: limits_length fast_path sets shadow malformed_passes clock lists_ipv4 lists_ipv6 needs control established
    room tc no_ethernet egress bans follow_up after_deadline new_sources second_chances proofs answers proof mac
    seed tick deadline indices limits candidates can_copy chained routes way_back guest log nat64 throttled
    passed index absent slips bounds handshakes truncates challenges);

impl Constants {
    /// The limit with this index.
    #[inline(always)]
    pub fn limit(&self, index: u32) -> Option<&Limit> {
        self.limits.get(index as usize)
    }

    /// The limit in this slot, with its index. None if it is gone.
    #[inline(always)]
    pub fn limit_in(&self, slot: u32) -> Option<(u32, &Limit)> {
        let index = *self.indices.get(slot as usize)?;
        Some((index, self.limit(index)?))
    }

    /// The quota of a row of new-source tokens.
    #[inline(always)]
    pub const fn budget(&self, row: u32) -> &NewSourceQuota {
        // The remainder bounds the index for the verifier.
        match row / SLOTS % BUDGETS {
            FIRST => &self.new_sources,
            SECOND => &self.second_chances,
            PROVEN => &self.proofs,
            _ => &self.answers,
        }
    }

    /// True if packets are looked up among the host's sockets.
    pub const fn looks_up_sockets(&self) -> bool {
        (self.established | self.needs & NEEDS_CONNECTION) != 0 || self.bounds.limits != 0
    }

    /// Returns true if some packets need more than their verdict; see [`Self::follow_up`].
    pub const fn has_follow_up(&self) -> bool {
        self.chained != 0 || self.proof != 0 || self.log != 0
    }

    /// No limit.
    pub const NONE: Self = Self {
        sets: 2,
        new_sources: NewSourceQuota::NONE,
        second_chances: NewSourceQuota::NONE,
        proofs: NewSourceQuota::NONE,
        answers: NewSourceQuota::NONE,
        seed: Seed::KNOWN,
        indices: [NO_LIMIT; SLOTS as usize],
        limits: [Limit::NONE; LIMITS_MAX as usize],
        nat64: Nat64::WELL_KNOWN,
        ..Self::ZEROS
    };
}

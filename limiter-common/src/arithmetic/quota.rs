//! A limit's compiled numbers: cost of a packet, depth and refill of a bucket.

use crate::{
    arithmetic::{
        bucket::{self, Decision},
        size,
        window::Window,
    },
    pod::pod,
};

/// In [`Quota::flags`]: the cost of a packet depends on its length.
pub const BY_BYTES: u32 = 1;

/// In [`Quota::flags`]: other hosts charge the bucket too, which may bring it into debt by up to [`bucket::DEBT_MAX`]
/// ticks. For token buckets only.
pub const SHARED: u32 = 2;

/// In [`Quota::flags`]: costs are stretched by the limit's [`super::scale`]. For token buckets only.
pub const ADAPTIVE: u32 = 4;

/// In the TAT of a bucket under a quota with [`Quota::hold`]: the bucket is held, or has admitted no packet since.
/// Costs and depth of such a quota are even, so that other TATs lack the bit. A change of quota may set or lose it: then
/// a hold begins a packet later, or once more.
pub const HELD: u64 = 1;

/// Rate and burst of one limit. A token bucket counts in ticks (see [`crate::arithmetic::bucket`]), a fixed window
/// in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Quota {
    /// Depth of the bucket: at most [`bucket::TAU_MAX`] ticks, or [`crate::arithmetic::window::TOKENS_MAX`] tokens.
    pub tau: u64,
    /// Cost of a packet; with [`BY_BYTES`], the cost of a byte times `1 << cost_shift`.
    pub cost: u64,
    /// Fractional bits of `cost`; 0 for packets.
    pub cost_shift: u32,
    /// Bits of [`BY_BYTES`], [`SHARED`] and [`ADAPTIVE`].
    pub flags: u32,
    /// Length and tokens of a fixed window. A token bucket has a period of 0.
    pub window: Window,
    /// Ticks for which a bucket that has refused a packet refuses all packets; 0: only until it has a token. For token
    /// buckets that are not [`SHARED`]. With `tau`, at most [`bucket::TAU_MAX`]. If it is not 0, `tau` and the cost of a
    /// packet are even.
    pub hold: u64,
    /// The part of `tau`, in ticks, for which packets are delayed: they leave when the rest of the bucket would admit them.
    /// 0: packets are not delayed. For token buckets without `hold` that are not [`SHARED`].
    pub pace: u64,
}

pod!(Quota: tau cost cost_shift flags window hold pace);

/// Ticks of a lease at most: what the rate brings in 100 µs.
const LEASE_MAX: u64 = bucket::ticks(100_000);
/// All leases together are at most this part of the burst.
const LEASED_PART: u64 = 64;
/// Packets that a lease pays for at least, of this length in bytes.
const LEASE_PACKETS: u64 = 8;
const LEASE_PACKET: u64 = 1_522;

/// Operations on a bucket. `now` is in nanoseconds of the kernel's monotonic clock, and a cost comes from
/// [`Quota::cost_of`].
impl Quota {
    /// The cost of a packet of this [`size`], rounded up: of all packets, if the kernel has merged several. User space
    /// chooses `cost` so that the product does not overflow for [`LENGTH_MAX`] bytes.
    #[inline(always)]
    pub const fn cost_of(&self, size: u64) -> u64 {
        let (packets, length) = (size::packets(size), size::bytes(size));
        // More than any bucket has: the product could overflow. Only many tiny packets, merged to one, are so long.
        let is_beyond = match self.flags & BY_BYTES {
            0 => packets > 1 && self.cost > bucket::TAU_MAX / packets,
            _ => length > LENGTH_MAX,
        };
        if is_beyond {
            bucket::TAU_MAX + 1
        } else if self.flags & BY_BYTES == 0 {
            self.cost * packets
        } else {
            self.cost_of_one(length)
        }
    }

    /// [`Self::cost_of`] of one packet of `length` bytes.
    #[inline(always)]
    pub const fn cost_of_one(&self, length: u64) -> u64 {
        if self.flags & BY_BYTES == 0 {
            return self.cost;
        }
        let cost = (length * self.cost + ((1 << self.cost_shift) - 1)) >> self.cost_shift;
        if self.hold == 0 {
            cost
        } else {
            cost + (cost & HELD)
        }
    }

    /// Ticks that each of `cpus` CPUs may take from a bucket at a time, for packets to come. 0 if the rate or the burst is
    /// too small, or the bucket is not one of packets to this host alone at a constant rate.
    pub const fn lease(&self, cpus: u64) -> u64 {
        if self.has_windows() || self.hold | self.pace != 0 || self.flags & (SHARED | ADAPTIVE) != 0
        {
            return 0;
        }
        let part = self.tau / (LEASED_PART * cpus);
        let lease = if part < LEASE_MAX { part } else { LEASE_MAX };
        if lease < self.cost_of(LEASE_PACKET).saturating_mul(LEASE_PACKETS) {
            return 0;
        }
        lease
    }

    /// The quota of a bucket that `cpus` CPUs lease from, and the lease. The bucket is smaller by all leases, so that there
    /// is never more than burst + rate × t.
    pub const fn with_leases(mut self, cpus: u64) -> (Self, u64) {
        let lease = if cpus > 1 { self.lease(cpus) } else { 0 };
        self.tau -= cpus * lease;
        (self, lease)
    }

    #[inline(always)]
    const fn has_windows(&self) -> bool {
        self.window.period != 0
    }

    /// The TAT of a bucket that is full at `now`.
    #[inline(always)]
    pub const fn full(&self, now: u64) -> u64 {
        if self.has_windows() {
            self.window.word(now, self.tau)
        } else {
            bucket::time(bucket::ticks(now))
        }
    }

    /// Decides about a packet that costs `cost`.
    #[inline(always)]
    pub const fn decide(&self, word: u64, now: u64, cost: u64) -> Decision {
        if self.has_windows() {
            return self.window.decide(word, now, cost, self.tau);
        }
        match bucket::decide(word, bucket::ticks(now), cost, self.tau) {
            Decision::Admit { tat } if self.hold != 0 => Decision::Admit { tat: tat & !HELD },
            decision => decision,
        }
    }

    /// The result of [`Self::decide`], if it is the same at every moment from `earliest` to `latest` and
    /// [`Self::corrected`] has nothing to correct. Then the exact time is not needed.
    ///
    /// Deciding at both ends is enough: a later moment never refuses a packet that an earlier moment admits, and never
    /// makes the new TAT smaller.
    #[inline(always)]
    pub const fn decide_within(
        &self,
        word: u64,
        earliest: u64,
        latest: u64,
        cost: u64,
    ) -> Option<Decision> {
        if self.has_windows() {
            return self.window_decides_within(word, earliest, latest, cost);
        }
        // Both from the later end: from the earlier one, a TAT half the range of the ticks ahead would count as passed.
        let late = bucket::ahead(word, bucket::ticks(latest));
        let early = late + bucket::ticks(latest.wrapping_sub(earliest));
        if late + cost > self.tau {
            if early > self.tau + self.beyond() {
                return None;
            }
            return Some(Decision::Refuse {
                wait: late + cost - self.tau,
            });
        }
        if earliest == latest {
            return Some(self.decide(word, latest, cost));
        }
        // A bucket that is not full at the later end has the same TAT after a charge at every moment.
        if late == 0 || early + cost > self.tau {
            return None;
        }
        Some(Decision::Admit {
            tat: self.written(word.wrapping_add(cost)),
        })
    }

    #[inline(always)]
    const fn window_decides_within(
        &self,
        word: u64,
        earliest: u64,
        latest: u64,
        cost: u64,
    ) -> Option<Decision> {
        let ends = (
            self.decide(word, earliest, cost),
            self.decide(word, latest, cost),
        );
        match ends {
            (Decision::Admit { tat: first }, Decision::Admit { tat: last }) if first == last => {
                Some(Decision::Admit { tat: last })
            }
            (Decision::Refuse { .. }, Decision::Refuse { wait })
                if self.corrected(word, earliest).is_none() =>
            {
                Some(Decision::Refuse { wait })
            }
            _ => None,
        }
    }

    /// The TAT of a token bucket after a charge.
    #[inline(always)]
    const fn written(&self, tick: u64) -> u64 {
        let tat = bucket::time(tick);
        if self.hold == 0 { tat } else { tat & !HELD }
    }

    /// The greatest debt of a token bucket, in ticks, before its TAT counts as wrong.
    #[inline(always)]
    const fn beyond(&self) -> u64 {
        if self.flags & SHARED == 0 {
            bucket::SKEW_MAX + self.hold
        } else {
            bucket::DEBT_MAX
        }
    }

    /// The corrected TAT, if the clock was set back and the TAT is too far ahead.
    #[inline(always)]
    pub const fn corrected(&self, word: u64, now: u64) -> Option<u64> {
        if self.has_windows() {
            self.window.corrected(word, now)
        } else {
            bucket::corrected(word, bucket::ticks(now), self.tau, self.beyond())
        }
    }

    /// The TAT of a bucket that refuses a packet of this cost at `now` and is held from then on: empty, and in debt for
    /// the time of the hold. None if the bucket admits the packet, if it could never, or if it has been held and has
    /// admitted no packet since: otherwise a source that stays below the rate could be held for ever. Most packets of a
    /// held source end there, without a reading of the clock.
    #[inline(always)]
    pub fn held(&self, word: u64, now: impl FnOnce() -> u64, cost: u64) -> Option<u64> {
        if word & HELD != 0 || cost > self.tau {
            return None;
        }
        let now = bucket::ticks(now());
        let ahead = bucket::ahead(word, now);
        if ahead > self.tau || ahead + cost <= self.tau {
            return None;
        }
        Some(bucket::time(now.wrapping_add(self.tau + self.hold)) | HELD)
    }

    /// Nanoseconds for which the bucket is still held at `now`, rounded up. None if it is not held.
    pub const fn held_for(&self, word: u64, now: u64) -> Option<u64> {
        let ahead = bucket::ahead(word, bucket::ticks(now));
        if self.hold == 0 || ahead <= self.tau {
            return None;
        }
        Some((ahead - self.tau).div_ceil(1 << bucket::TICK_SHIFT))
    }

    /// The TAT without a charge of `cost` at `charged`. `now` is a time after the TAT was read. A refund never gives
    /// too much. A bucket that another packet has brought into a hold since gets no refund, which would end it early.
    #[inline(always)]
    pub const fn refunded(&self, word: u64, cost: u64, charged: u64, now: u64) -> u64 {
        if self.hold != 0 && bucket::ahead(word, bucket::ticks(now)) > self.tau {
            word
        } else if self.has_windows() {
            self.window.refunded(word, cost, charged, self.tau)
        } else {
            bucket::refunded(word, cost, bucket::ticks(charged), bucket::ticks(now))
        }
    }

    /// Ticks for which a packet is delayed that was charged at `now` and has brought the bucket to `tat`.
    #[inline(always)]
    pub const fn delay(&self, tat: u64, now: u64) -> u64 {
        let leaves = tat.wrapping_sub(self.tau - self.pace);
        bucket::ahead(leaves, bucket::ticks(now))
    }

    /// The unspent part of `tau` at `now`, without [`Self::pace`].
    #[inline(always)]
    pub const fn left(&self, word: u64, now: u64) -> u64 {
        if self.has_windows() {
            self.window.left(word, now, self.tau)
        } else {
            let left = self.tau - bucket::spent(word, bucket::ticks(now), self.tau);
            left.saturating_sub(self.pace)
        }
    }

    /// Nanoseconds since the bucket became full, at `now`. None if it is not full.
    #[inline(always)]
    pub const fn full_for(&self, word: u64, now: u64) -> Option<u64> {
        if self.has_windows() {
            self.window.full_for(word, now, self.tau)
        } else {
            match bucket::full_for(word, bucket::ticks(now)) {
                Some(ticks) => Some(ticks >> bucket::TICK_SHIFT),
                None => None,
            }
        }
    }
}

/// Nanoseconds after its first packet in which a source is not quiet.
const QUIET_AFTER: u64 = 1_000_000_000;

/// The shortest packet that a source may have sent, in bytes: an Ethernet header.
const SHORTEST: u64 = 14;

impl Quota {
    /// True if the bucket of a source with this many packets has been full for a second, or the first of them was charged
    /// to a full bucket a second ago. Of a long packet, that is known later.
    #[inline(always)]
    pub const fn is_quiet(&self, word: u64, packets: u64, now: u64) -> bool {
        if let Some(full_for) = self.full_for(word, now) {
            return full_for >= QUIET_AFTER;
        }
        let spent = packets * self.cost_of(SHORTEST);
        !self.has_windows()
            && bucket::ahead(word, bucket::ticks(now)) + bucket::ticks(QUIET_AFTER) <= spent
    }
}

/// The longest packet that XDP sees, in bytes, rounded up. In generic mode, receive offload merges up to 512 KiB
/// (`GRO_MAX_SIZE`, include/linux/netdevice.h); a multi-buffer frame has 17 fragments and a head.
pub const LENGTH_MAX: u64 = 1 << 20;

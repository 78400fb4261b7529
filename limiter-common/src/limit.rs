//! A limit in the kernel's terms: what one packet costs and how deep a bucket is.

/// Rate and burst of one limit, in ticks; see [`crate::bucket`] for the unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Terms {
    /// Depth of the bucket: burst × cost of one token. At most [`crate::bucket::TAU_MAX`].
    pub tau: u64,
    /// Cost of a packet, or of `1 << cost_shift`-th of a byte where `by_bytes` is set.
    pub cost: u64,
    /// Fractional bits of `cost`; 0 for packets.
    pub cost_shift: u32,
    /// 1 where a packet costs by its length, 0 where every packet costs the same.
    pub by_bytes: u32,
}

impl Terms {
    /// What a packet of `length` bytes costs, in ticks, rounded up: rounding never admits more than
    /// configured.
    ///
    /// User space chooses `cost` so that the product does not overflow for any length up to
    /// [`LENGTH_MAX`].
    #[must_use]
    #[inline(always)]
    pub const fn cost_of(&self, length: u64) -> u64 {
        if self.by_bytes == 0 {
            return self.cost;
        }
        (length * self.cost + ((1 << self.cost_shift) - 1)) >> self.cost_shift
    }
}

/// No packet that XDP sees is longer: in generic mode receive offload merges up to 512 KiB
/// (`GRO_MAX_SIZE`, include/linux/netdevice.h), and a multi-buffer frame has 17 fragments and a head.
pub const LENGTH_MAX: u64 = 1 << 20;

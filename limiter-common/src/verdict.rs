//! What became of a packet, and why.

/// Each packet is counted under exactly one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Reason {
    /// Passed: every limit that matches it admitted it.
    Admitted = 0,
    /// Passed: no limit holds it, because it is not IP.
    NotIp = 1,
    /// Passed although over the limit, because of shadow.
    WouldDrop = 2,
    /// Dropped: over the limit.
    Limit = 3,
    /// Dropped: its source is denied.
    Deny = 4,
    /// Dropped: a source that is not in the table, and too many new ones come, or there is no room.
    Newcomer = 5,
    /// Dropped: an IP header that cannot be one.
    Malformed = 6,
    /// Dropped: lost the race for the bucket too many times.
    Contended = 7,
    /// Passed: an IP header that cannot be one, which the configuration lets through.
    MalformedPassed = 8,
    /// Passed: an IP header that cannot be one, because of shadow.
    MalformedWouldDrop = 9,
    /// Passed: its source is allowed.
    Allowed = 10,
    /// Passed: no limit matches it.
    Unlimited = 11,
    /// Passed although over the limit: it belongs to a connection of the host's own sockets.
    Established = 12,
}

impl Reason {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 13] = [
        Self::Admitted,
        Self::NotIp,
        Self::WouldDrop,
        Self::Limit,
        Self::Deny,
        Self::Newcomer,
        Self::Malformed,
        Self::Contended,
        Self::MalformedPassed,
        Self::MalformedWouldDrop,
        Self::Allowed,
        Self::Unlimited,
        Self::Established,
    ];

    /// Whether the packet went on its way.
    #[must_use]
    #[inline(always)]
    pub const fn passes(self) -> bool {
        matches!(
            self,
            Self::Admitted
                | Self::NotIp
                | Self::WouldDrop
                | Self::MalformedPassed
                | Self::MalformedWouldDrop
                | Self::Allowed
                | Self::Unlimited
                | Self::Established
        )
    }

    /// Whether it only went on because of shadow.
    #[must_use]
    #[inline(always)]
    pub const fn would_drop(self) -> bool {
        matches!(self, Self::WouldDrop | Self::MalformedWouldDrop)
    }

    /// The reason with this number.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

//! Verdicts on packets and their reasons.

/// The verdict that a reason leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The packet passes and is charged to every limit that matches it.
    Admit,
    /// The packet passes without being charged.
    Pass,
    /// The packet passes only because of shadow mode.
    Shadow,
    /// The packet is dropped: a limit refused it.
    Refuse,
    /// The packet is dropped before limits are checked.
    Drop,
}

/// The table of reasons. A line has documentation, variant, number, name (in JSON, metrics and on the command line),
/// text (in messages) and verdict. Numbers never change, because they are indices of pinned counters.
macro_rules! reasons {
    ($($(#[$doc:meta])+ $reason:ident = $number:literal, $name:literal, $text:literal, $verdict:ident;)+) => {
        /// The reason why a packet passes or is dropped. Each packet is counted under exactly one reason.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum Reason {
            $($(#[$doc])+ $reason = $number,)+
        }

        impl Reason {
            /// All reasons, in the order of their numbers.
            pub const ALL: [Self; [$($number),+].len()] = [$(Self::$reason),+];

            /// The name in JSON, in metrics and on the command line.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$reason => $name,)+
                }
            }

            /// The reason in words, for messages.
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$reason => $text,)+
                }
            }

            /// The verdict on a packet with this reason.
            #[inline(always)]
            pub const fn verdict(self) -> Verdict {
                match self {
                    $(Self::$reason => Verdict::$verdict,)+
                }
            }
        }
    };
}

reasons! {
    /// Passed: all limits that match the packet admitted it.
    Admitted = 0, "admitted", "admitted", Admit;
    /// Passed: the packet is not IP, and no limit applies.
    NotIp = 1, "not_ip", "not IP", Pass;
    /// Passed because of shadow mode, although a limit refused the packet, or its source is denied or banned.
    WouldDrop = 2, "would_drop", "over the limit, in shadow", Shadow;
    /// Dropped: over the limit.
    Limit = 3, "limit", "over the limit", Refuse;
    /// Dropped: the source is on the deny list.
    Deny = 4, "deny", "denied", Drop;
    /// Dropped: the source is new, and new sources arrive too fast or the table has no room.
    NewSource = 5, "new_source", "new source", Refuse;
    /// Dropped: a malformed IP packet.
    Malformed = 6, "malformed", "malformed", Drop;
    /// Dropped: other CPUs changed the bucket at each attempt.
    Contended = 7, "contended", "contended", Refuse;
    /// Passed: a malformed IP packet, because the configuration lets these pass.
    MalformedPassed = 8, "malformed_passed", "malformed, let through", Pass;
    /// Passed: a malformed IP packet, because of shadow mode.
    MalformedWouldDrop = 9, "malformed_would_drop", "malformed, in shadow", Shadow;
    /// Passed: the source is on the allow list.
    Allowed = 10, "allowed", "allowed", Pass;
    /// Passed: no limit matches the packet.
    Unlimited = 11, "unlimited", "matched no limit", Pass;
    /// Passed without being charged: the packet belongs to a connection of one of the host's sockets.
    Established = 12, "established", "established", Pass;
    /// Passed: all limits admitted the packet, and one of them delays it.
    Paced = 13, "paced", "delayed", Admit;
    /// Dropped: a packet that would have been refused. The program has answered it, so that its source proves its address.
    Answered = 14, "answered", "asked for a proof", Refuse;
    /// Dropped: the source is banned.
    Ban = 15, "ban", "banned", Drop;
    /// Dropped: the packet opens a connection, and its key has as many open connections as its limit allows.
    Connections = 16, "connections", "too many open connections", Refuse;
}

/// Bits of the reasons that drop packets.
const DROPS: u32 = {
    let (mut bits, mut number) = (0, 0);
    while number < Reason::ALL.len() {
        if let Verdict::Refuse | Verdict::Drop = Reason::ALL[number].verdict() {
            bits |= 1 << number;
        }
        number += 1;
    }
    bits
};

const _: () = {
    let mut number = 0;
    while number < Reason::ALL.len() {
        let reason = Reason::ALL[number];
        let shadow = matches!(reason.verdict(), Verdict::Shadow);
        assert!(shadow == reason.would_drop(), "see would_drop");
        number += 1;
    }
};

impl Reason {
    /// True if the packet passes.
    #[inline(always)]
    pub const fn passes(self) -> bool {
        DROPS >> self as u32 & 1 == 0
    }

    /// True if the packet passes only because of shadow mode.
    #[inline(always)]
    pub const fn would_drop(self) -> bool {
        matches!(self, Self::WouldDrop | Self::MalformedWouldDrop)
    }

    /// The reasons that drop packets.
    pub fn drops() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|reason| !reason.passes())
    }

    /// The reason with this number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// The reason with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.name() == name)
    }
}

//! The events that `log` reports, and the budget of each CPU.

use super::events::Budget;
use crate::{pod::pod, policy::verdict::Reason};

/// Levels, as aya-log numbers them.
pub const ERROR: u32 = 1;
/// See [`ERROR`].
pub const WARN: u32 = 2;
/// See [`ERROR`].
pub const INFO: u32 = 3;
/// See [`ERROR`].
pub const DEBUG: u32 = 4;
/// See [`ERROR`].
pub const TRACE: u32 = 5;

/// The table of events. A line has documentation, variant, number, level, name (in JSON) and text.
macro_rules! events {
    ($($(#[$doc:meta])+ $event:ident = $number:literal, $level:ident, $name:literal, $text:literal;)+) => {
        /// An event that the program reports. The number is in the message.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum Logged {
            $($(#[$doc])+ $event = $number,)+
        }

        impl Logged {
            /// All events, in the order of their numbers.
            pub const ALL: [Self; [$($number),+].len()] = [$(Self::$event),+];

            /// The level from which on it is reported.
            #[inline(always)]
            pub const fn level(self) -> u32 {
                Self::level_of(self as u32)
            }

            /// [`Self::level`] of the event with this number.
            #[inline(always)]
            pub const fn level_of(number: u32) -> u32 {
                match number {
                    $($number => $level,)+
                    _ => TRACE,
                }
            }

            /// The name in JSON.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$event => $name,)+
                }
            }

            /// The event in words.
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$event => $text,)+
                }
            }
        }
    };
}

events! {
    /// A new source is refused because its limit has no room in the table.
    TableFull = 0, ERROR, "table_full", "new source refused: no room in the table";
    /// Other CPUs changed the bucket at each attempt.
    Contended = 1, WARN, "contended", "contended: other CPUs changed the bucket at each attempt";
    /// The deadline of this program is over.
    Ended = 2, INFO, "ended", "time is over: packets go to the program before the log";
    /// A new source has proven its address.
    Proven = 3, DEBUG, "proven", "source has proven its address";
    /// A packet is answered.
    Answered = 4, DEBUG, "answered", "source asked for a proof of its address";
    /// A new source is refused because new sources arrive too fast.
    NewSource = 5, DEBUG, "new_source", "new source refused: too many new sources";
    /// A malformed IP packet.
    Malformed = 6, DEBUG, "malformed", "malformed packet";
    /// Over the limit.
    Limit = 7, TRACE, "limit", "over the limit";
    /// The source is on the deny list.
    Deny = 8, TRACE, "deny", "denied";
    /// The source is banned.
    Ban = 9, TRACE, "ban", "banned";
    /// The packet opens a connection beyond the bound of its limit.
    Connections = 10, TRACE, "connections", "too many open connections";
}

impl Logged {
    /// The event with this number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// The event of a packet that is dropped for the reason with this number.
    #[inline(always)]
    pub const fn of_drop(reason: u32) -> Option<Self> {
        const REASONS: [(Reason, Logged); 8] = [
            (Reason::Contended, Logged::Contended),
            (Reason::Answered, Logged::Answered),
            (Reason::NewSource, Logged::NewSource),
            (Reason::Malformed, Logged::Malformed),
            (Reason::Limit, Logged::Limit),
            (Reason::Deny, Logged::Deny),
            (Reason::Ban, Logged::Ban),
            (Reason::Connections, Logged::Connections),
        ];
        let mut index = 0;
        while index < REASONS.len() {
            if REASONS[index].0 as u32 == reason {
                return Some(REASONS[index].1);
            }
            index += 1;
        }
        None
    }

    /// Returns true if a limit gave it.
    #[inline(always)]
    pub const fn is_of_limit(self) -> bool {
        matches!(
            self,
            Self::TableFull
                | Self::Contended
                | Self::Proven
                | Self::Answered
                | Self::NewSource
                | Self::Limit
        )
    }
}

/// Bytes of the ring buffer while a log runs: a power of two, and whole pages for page sizes up to 64 KiB.
pub const LOGS_BYTES: u32 = 128 * 1024;

/// State of the log on one CPU. Only that CPU writes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Logging {
    /// Messages that the CPU may write now.
    pub budget: Budget,
    /// `jiffies` at the last reading of the clock.
    pub jiffy: u64,
    /// Messages of the wanted levels that were not written.
    pub lost: u64,
    /// Number of a [`Logged`] that explains the verdict on the packet, plus one; 0: none.
    pub noted: u32,
    /// 1: the CPU has reported the end.
    pub ended: u32,
}

pod!(Logging: budget jiffy lost noted ended);

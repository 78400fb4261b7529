//! The switches that nearly every packet asks: are there bans, and does a process watch. One lookup answers both.

use core::ptr;

use limiter_common::abi::events::Switches;

use crate::{constants, maps::SWITCHES, read};

/// The program's [`Switches`], as looked up for one packet; null without them, which an `Option` would keep in a word
/// more.
#[derive(Clone, Copy)]
pub struct Asked(*const Switches);

impl Asked {
    /// Looks them up.
    #[inline(always)]
    pub fn look_up() -> Self {
        Self(record().unwrap_or(ptr::null()))
    }

    /// True if there may be bans.
    #[inline(always)]
    pub fn are_there_bans(self) -> bool {
        let Self(switches) = self;
        !switches.is_null()
            && read!(switches, bans.counts[0]) | read!(switches, bans.counts[1]) != 0
    }

    /// True if a process watches.
    #[inline(always)]
    pub fn is_watched(self) -> bool {
        let Self(switches) = self;
        !switches.is_null() && read!(switches, watches.active) != 0
    }
}

/// True if there may be bans. Without bans, a packet costs only this.
#[inline(always)]
pub fn are_there_bans() -> bool {
    constants().bans != 0 && Asked::look_up().are_there_bans()
}

/// The record.
#[inline(always)]
pub fn record() -> Option<*const Switches> {
    SWITCHES.get_ptr(0)
}

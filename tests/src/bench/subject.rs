//! Defines and installs the subjects: limiter, other limiters, and programs without a limit.

use std::{
    any::Any,
    os::fd::{AsFd as _, BorrowedFd},
};

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use limiter_common::abi::Config;
use limiter_user::kernel::sys::{interface::XdpMode, link::Link};
use serde::Serialize;

use super::{
    case::{Case, Cpus, Verdict},
    netfilter,
    object::Object,
    testbed::Testbed,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// An XDP program that only drops; the reference for all packets that are dropped
    BareDrop,
    /// An XDP program that only passes; the reference for all packets that pass
    BarePass,
    /// An XDP program that reads one cache line for each source, and passes or drops all packets
    OneLine,
    /// limiter with one limit by source
    Limiter,
    /// limiter with eight more limits that match nothing
    LimiterEight,
    /// limiter with an allow list of 100,000 prefixes
    LimiterLists,
    /// limiter with limits of source, network and interface
    LimiterNested,
    /// limiter with one limit by source that a fleet shares
    LimiterFleet,
    /// limiter with one limit by source, which exempts established connections
    LimiterEstablished,
    /// A textbook XDP limiter: LRU hash, clock, compare-and-swap, and no counters
    Reference,
    /// nftables, a dynamic set at the hook netdev ingress
    NftIngress,
    /// nftables, a dynamic set at the hook prerouting
    NftPrerouting,
    /// iptables, hashlimit in raw PREROUTING
    Hashlimit,
    /// tc, one policer for all sources
    TcPolice,
    /// No limiter: the stack takes all packets
    None,
}

impl Subject {
    /// The bare program for this verdict.
    pub fn floor(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Dropped => Self::BareDrop,
            Verdict::Passed => Self::BarePass,
        }
    }

    /// The subject's name in the options.
    pub fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// True if the subject is measured in this case.
    pub fn has_turns(self, case: Case) -> bool {
        match self {
            Self::BareDrop => case.verdict == Verdict::Dropped,
            Self::BarePass => case.verdict == Verdict::Passed,
            // Packets that pass mostly measure the stack, where the two processors compete anyway.
            _ if case.cpus != Cpus::One && case.verdict == Verdict::Passed => {
                matches!(self, Self::OneLine | Self::Limiter | Self::LimiterNested)
            }
            _ => true,
        }
    }

    /// True if the subject refuses packets over the limit of a source that it has seen before.
    pub fn limits(self) -> bool {
        !matches!(self, Self::BarePass | Self::None)
    }

    /// Installs the subject on the server. It stays until the result is dropped, or the server is.
    pub fn install(self, case: Case, testbed: &Testbed) -> Result<Box<dyn Any>> {
        let own = |object: Object| -> Result<Box<dyn Any>> {
            let link = attach(object.program()?.as_fd(), testbed)?;
            Ok(Box::new((object, link)))
        };
        match (self, case.verdict) {
            (Self::BareDrop, _) => return own(Object::load(&SMALLEST, "drop_only")?),
            (Self::BarePass, _) => return own(Object::load(&SMALLEST, "pass_only")?),
            (Self::OneLine, verdict) => {
                let program = match verdict {
                    Verdict::Dropped => "one_line_drop",
                    Verdict::Passed => "one_line_pass",
                };
                // The table and the key are limiter's.
                return own(Object::load(&self.config(case)?, program)?);
            }
            (Self::Reference, verdict) => {
                let capacity = case.sources.capacity();
                return own(Object::load_wire(quota(verdict), capacity, "reference")?);
            }
            (Self::NftIngress, _) => netfilter::nft_ingress(case, testbed)?,
            (Self::NftPrerouting, _) => netfilter::nft_prerouting(case, testbed)?,
            (Self::Hashlimit, _) => netfilter::hashlimit(case, testbed)?,
            (Self::TcPolice, _) => netfilter::tc_police(case, testbed)?,
            (Self::None, _) => {}
            _ => {
                let program = self.load(case)?;
                let link = attach(program.fd()?, testbed)?;
                return Ok(Box::new((program, link)));
            }
        }
        Ok(Box::new(()))
    }
}

/// Constants for programs that read none of them.
const SMALLEST: Config = Config {
    sets: 2,
    ..Config::NONE
};

/// The reference's cost of a packet, and its burst, in nanoseconds.
fn quota(verdict: Verdict) -> [u64; 2] {
    const SECOND: u64 = 1_000_000_000;
    match verdict {
        Verdict::Dropped => [3_600 * SECOND, 3_600 * SECOND],
        Verdict::Passed => [SECOND / 1_000_000, SECOND],
    }
}

fn attach(program: BorrowedFd<'_>, testbed: &Testbed) -> Result<Link> {
    let link = testbed
        .server
        .namespace
        .run(|| Link::create(program, testbed.server.index, XdpMode::Native))?;
    link.context("attaching")
}

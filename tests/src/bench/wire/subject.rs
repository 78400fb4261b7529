//! Defines and installs the subjects: limiter, other limiters, and programs without a limit.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use limiter_common::abi::Config;
use limiter_user::kernel::{
    program::object::Program,
    sys::{bpf, bpf::XDP_FLAGS_DRV_MODE},
};
use serde::Serialize;

use super::{
    case::{Case, Cpus, Verdict},
    limiter::Configured,
    netfilter,
    testbed::Testbed,
    watched::Watched,
};
use crate::object::{Code, Object};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
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
    /// limiter with one limit by source, and `limiter watch` beside it
    LimiterWatched,
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

/// Keeps a subject installed.
#[expect(dead_code, reason = "never read, only kept alive")]
pub enum Installed {
    /// Nothing but the hosts themselves.
    InNamespace,
    /// An object of the benchmark's own, and its link.
    Own(Object, OwnedFd),
    /// limiter, and its link.
    Limiter(Program, OwnedFd),
    /// limiter, and its watcher.
    Watched(Watched),
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

    /// True if the subject is limiter, in any configuration.
    pub fn is_limiter(self) -> bool {
        matches!(
            self,
            Self::Limiter
                | Self::LimiterEight
                | Self::LimiterLists
                | Self::LimiterNested
                | Self::LimiterFleet
                | Self::LimiterWatched
                | Self::LimiterEstablished
        )
    }

    /// True if the subject has a price: it does more than the bare programs.
    pub fn has_price(self) -> bool {
        !matches!(self, Self::BareDrop | Self::BarePass | Self::None)
    }

    /// True if the subject refuses packets over the limit of a source that it has seen before.
    pub fn limits(self) -> bool {
        !matches!(self, Self::BarePass | Self::None)
    }

    /// Installs the subject on the server.
    pub fn install(self, case: Case, testbed: &Testbed) -> Result<Installed> {
        let bare = |program: &str| {
            own(
                Object::load(Code::Bench, &SMALLEST, &[program])?,
                program,
                testbed,
            )
        };
        let limiter = |configured: Configured| {
            let program = configured.load(case)?;
            let link = attach(program.fd()?, testbed)?;
            Ok(Installed::Limiter(program, link))
        };
        let in_namespace = |result: Result<()>| result.map(|()| Installed::InNamespace);
        match self {
            Self::BareDrop => bare("drop_only"),
            Self::BarePass => bare("pass_only"),
            Self::OneLine => {
                let program = match case.verdict {
                    Verdict::Dropped => "one_line_drop",
                    Verdict::Passed => "one_line_pass",
                };
                // The table and the key are limiter's.
                let config = Configured::Plain.config(case)?;
                own(
                    Object::load(Code::Bench, &config, &[program])?,
                    program,
                    testbed,
                )
            }
            Self::Limiter => limiter(Configured::Plain),
            Self::LimiterEight => limiter(Configured::EightMore),
            Self::LimiterLists => limiter(Configured::Lists),
            Self::LimiterNested => limiter(Configured::Nested),
            Self::LimiterFleet => limiter(Configured::Fleet),
            Self::LimiterWatched => Watched::install(case, testbed).map(Installed::Watched),
            Self::LimiterEstablished => limiter(Configured::Established),
            Self::Reference => {
                let (program, capacity) = ("reference", case.sources.capacity());
                let object = Object::load_wire(quota(case.verdict), capacity, &[program])?;
                own(object, program, testbed)
            }
            Self::NftIngress => in_namespace(netfilter::nft_ingress(case, testbed)),
            Self::NftPrerouting => in_namespace(netfilter::nft_prerouting(case, testbed)),
            Self::Hashlimit => in_namespace(netfilter::hashlimit(case, testbed)),
            Self::TcPolice => in_namespace(netfilter::tc_police(case, testbed)),
            Self::None => Ok(Installed::InNamespace),
        }
    }
}

/// Constants for programs that read none of them.
const SMALLEST: Config = Config {
    sets: 2,
    ..Config::NONE
};

fn own(object: Object, program: &str, testbed: &Testbed) -> Result<Installed> {
    let link = attach(object.program(program)?.as_fd(), testbed)?;
    Ok(Installed::Own(object, link))
}

/// The reference's cost of a packet, and its burst, in nanoseconds.
fn quota(verdict: Verdict) -> [u64; 2] {
    const SECOND: u64 = 1_000_000_000;
    match verdict {
        Verdict::Dropped => [3_600 * SECOND, 3_600 * SECOND],
        Verdict::Passed => [SECOND / 1_000_000, SECOND],
    }
}

fn attach(program: BorrowedFd<'_>, testbed: &Testbed) -> Result<OwnedFd> {
    let link = testbed
        .server
        .namespace
        .run(|| bpf::link_create(program, testbed.server.index, XDP_FLAGS_DRV_MODE))?;
    link.context("attaching")
}

//! The table of subjects: limiter, other limiters, and programs without a limit.

use std::{
    any::Any,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
};

use anyhow::{Context as _, Result};
use limiter_tests::scenario::{self, source};

use super::{
    case::{Case, Sources, Verdict},
    limiter,
    mix::Traffic,
    netfilter,
    object::{Object, ObjectConstants},
    testbed::{Testbed, on},
};

/// A subject: its name, and its kind.
#[derive(Debug)]
pub struct Subject(pub &'static str, Kind);

/// An installed subject, until it is dropped.
#[derive(Debug)]
pub struct Installed {
    /// Its XDP program, if it is one.
    pub program: Option<OwnedFd>,
    _kept: Box<dyn Any>,
}

#[derive(Debug)]
enum Kind {
    /// Programs of the benchmark's object, for packets that are dropped and for packets that pass; and their constants.
    Programs(
        [Option<&'static str>; 2],
        fn(Case) -> Result<ObjectConstants>,
    ),
    /// limiter with this configuration file, besides the keys about the table.
    Limiter(fn(Case) -> String),
    /// limiter with the recipe for this traffic.
    Recipe(Traffic),
    /// nftables with the same rules.
    Rules(Traffic),
    /// limiter with these lines in its limit by source. All packets of the benchmark fulfil their conditions.
    Field(&'static str),
    /// A command that sets up another limiter.
    Command(fn(Case) -> String),
    /// No limiter.
    Nothing,
}

use Kind::{Command, Field, Limiter, Nothing, Programs, Recipe, Rules};
use limiter_config::{Direction, Mode};
use limiter_kernel::sys::{interface::XdpMode, link::Link};

/// All subjects. The first two are the bare programs.
pub static SUBJECTS: [Subject; 37] = [
    Subject("bare-drop", Programs([Some("drop_only"), None], none)),
    Subject("bare-pass", Programs([None, Some("pass_only")], none)),
    Subject(
        "one-line",
        Programs([Some("one_line_drop"), Some("one_line_pass")], one_line),
    ),
    Subject("limiter", Limiter(|case| scenario::one(case.verdict))),
    Subject(
        "limiter-tc",
        Limiter(|case| format!("mode = \"tc\"\n{}", scenario::one(case.verdict))),
    ),
    Subject(
        "limiter-generic",
        Limiter(|case| format!("mode = \"generic\"\n{}", scenario::one(case.verdict))),
    ),
    Subject(
        "limiter-eight",
        Limiter(|case| scenario::eight(case.verdict)),
    ),
    Subject(
        "limiter-lists",
        Limiter(|case| {
            let allow = scenario::prefixes(case.family, 100_000);
            scenario::allow(case.verdict, &allow)
        }),
    ),
    Subject("limiter-beside-1k", Limiter(|case| beside(case, 1_000))),
    Subject("limiter-beside-100k", Limiter(|case| beside(case, 100_000))),
    Subject("limiter-beside-1m", Limiter(|case| beside(case, 1_000_000))),
    Subject(
        "limiter-nested",
        Limiter(|case| scenario::nested(case.verdict)),
    ),
    Subject(
        "limiter-interface",
        Limiter(|case| source(case.verdict, "key = \"interface\"")),
    ),
    Subject(
        "limiter-fleet",
        Limiter(|case| {
            let limit = source(case.verdict, "scope = \"fleet\"");
            format!("fleet = \"bench\"\n{limit}")
        }),
    ),
    Subject(
        "limiter-established",
        Limiter(|case| scenario::established(case.verdict)),
    ),
    Subject(
        "reference",
        Programs([Some("reference"), Some("reference")], reference),
    ),
    Subject("nft-ingress", Command(netfilter::nft_ingress)),
    Subject("nft-prerouting", Command(netfilter::nft_prerouting)),
    Subject("nft-nested", Command(netfilter::nft_nested)),
    Subject("hashlimit", Command(netfilter::hashlimit)),
    Subject("none", Nothing),
    Subject("web", Recipe(Traffic::Web)),
    Subject("nft-web", Rules(Traffic::Web)),
    Subject("dns", Recipe(Traffic::Dns)),
    Subject("nft-dns", Rules(Traffic::Dns)),
    Subject("game", Recipe(Traffic::Game)),
    Subject("nft-game", Rules(Traffic::Game)),
    Subject(
        "limiter-destination",
        Field(r#"match = { destination = ["192.0.2.0/24", "2001:db8::/64"] }"#),
    ),
    Subject("limiter-length", Field(r#"match = { length = "1-1500" }"#)),
    Subject("limiter-ttl", Field(r#"match = { ttl = "1-255" }"#)),
    Subject("limiter-dscp", Field(r#"match = { dscp = "0-62" }"#)),
    Subject(
        "limiter-icmp",
        Field(r#"match = { not = { icmp_type = "echo-request" } }"#),
    ),
    Subject(
        "limiter-payload",
        Field(r#"match = { payload = { offset = 1, bytes = "5a 5a" } }"#),
    ),
    Subject(
        "limiter-not",
        Field(r#"match = { not = { destination_port = 7001 } }"#),
    ),
    Subject("limiter-hold", Field(r#"hold = "2h""#)),
    Subject("limiter-pair", Field(r#"key = "source + destination""#)),
    Subject("limiter-flow", Field(r#"key = "flow""#)),
];

/// The limit by source, with so many allowed addresses beside the source.
fn beside(case: Case, count: u32) -> String {
    scenario::allow(case.verdict, &scenario::neighbours(case.family, count))
}

impl Subject {
    /// The bare program for this verdict.
    pub fn floor(verdict: Verdict) -> &'static Self {
        &SUBJECTS[verdict as usize]
    }

    /// True if the subject is limiter with one field or key, to compare with `limiter`.
    pub fn is_field(&self) -> bool {
        matches!(self.1, Field(_))
    }

    /// True if the subject is measured in this case.
    pub fn has_turns(&self, case: Case) -> bool {
        let is_plain = case.traffic == Traffic::Plain;
        // No XDP program, which could run alone.
        let is_hot = case.sources == Sources::Hot;
        match self.1 {
            Programs(..) if !is_plain => self.0 == Self::floor(case.verdict).0,
            Programs(programs, _) => programs[case.verdict as usize].is_some(),
            // The kernel runs programs of the network stack by themselves in another way.
            Limiter(_) if self.0 == "limiter-tc" => is_plain && !is_hot,
            // Half of several sources would be allowed.
            Limiter(_) if self.0.starts_with("limiter-beside") => is_plain && is_hot,
            Limiter(_) | Field(_) => is_plain,
            Command(_) | Nothing => is_plain && !is_hot,
            Recipe(traffic) => case.traffic == traffic,
            Rules(traffic) => case.traffic == traffic && !is_hot,
        }
    }

    /// True if the subject has the rules of a recipe.
    pub fn has_rules(&self) -> bool {
        matches!(self.1, Recipe(_) | Rules(_))
    }

    /// True if the subject refuses packets over the limit of a source that it has seen before.
    pub fn limits(&self) -> bool {
        !matches!(self.1, Nothing)
    }

    /// Installs the subject on the server. It stays until the result is dropped, or the server is.
    pub fn install(&self, case: Case, testbed: &Testbed) -> Result<Installed> {
        let (kept, program): (Box<dyn Any>, _) = match self.1 {
            Programs(programs, constants) => {
                let program = programs[case.verdict as usize].context("no program")?;
                let object = Object::load(program, &constants(case)?)?;
                let program = object.program()?.as_fd().try_clone_to_owned()?;
                let link = attach(program.as_fd(), testbed, Mode::Native)?;
                (Box::new((object, link)), Some(program))
            }
            Limiter(file) => install(case, &file(case), testbed)?,
            Recipe(traffic) => {
                let recipe = traffic.recipe().context("no recipe")?;
                install(case, &limiter::recipe(case, recipe), testbed)?
            }
            Rules(_) => (
                Box::new(on(&testbed.server, &netfilter::rules(case))?),
                None,
            ),
            Field(lines) => install(case, &source(case.verdict, lines), testbed)?,
            Command(line) => (Box::new(on(&testbed.server, &line(case))?), None),
            Nothing => (Box::new(()), None),
        };
        Ok(Installed {
            program,
            _kept: kept,
        })
    }
}

fn install(case: Case, file: &str, testbed: &Testbed) -> Result<(Box<dyn Any>, Option<OwnedFd>)> {
    let (program, mode) = limiter::load(case, file)?;
    let descriptor = program.fd()?.try_clone_to_owned()?;
    let link = attach(descriptor.as_fd(), testbed, mode)?;
    Ok((Box::new((program, link)), Some(descriptor)))
}

fn none(_: Case) -> Result<ObjectConstants> {
    Ok(ObjectConstants::none())
}

/// The table and the key are limiter's.
fn one_line(case: Case) -> Result<ObjectConstants> {
    Ok(ObjectConstants {
        config: limiter::config(case)?,
        ..ObjectConstants::none()
    })
}

fn reference(case: Case) -> Result<ObjectConstants> {
    const SECOND: u64 = 1_000_000_000;
    Ok(ObjectConstants {
        quota: match case.verdict {
            Verdict::Dropped => [3_600 * SECOND, 3_600 * SECOND],
            Verdict::Passed => [1, SECOND],
        },
        capacity: case.sources.capacity(),
        ..ObjectConstants::none()
    })
}

fn attach(program: BorrowedFd<'_>, testbed: &Testbed, mode: Mode) -> Result<Link> {
    let index = testbed.server.index;
    let link = testbed.server.namespace.run(|| match mode {
        Mode::Tc => Link::create_tc(program, index, Direction::In, None),
        Mode::Generic => Link::create(program, index, XdpMode::Generic),
        _ => Link::create(program, index, XdpMode::Native),
    })?;
    link.context("attaching")
}

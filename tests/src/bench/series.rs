//! Measures one case. Its subjects take turns, so that other load on the machine affects all of them equally.

use std::os::fd::AsFd as _;

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;

use super::{
    case::{Case, Sources, Verdict},
    offer::{self, Senders, Turn},
    plan::Plan,
    subject::{Installed, Subject},
    testbed::Testbed,
};

/// The result of one subject in one case.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    #[serde(flatten)]
    pub case: Case,
    pub subject: &'static str,
    /// Nanoseconds of processor time per packet, including its sending: statistics of the rounds.
    pub median: f64,
    pub min: f64,
    pub quartiles: [f64; 2],
    pub max: f64,
    /// Nanoseconds more than the bare program.
    pub over_floor: f64,
    /// The figure as a multiple of the bare program's figure.
    pub times_floor: f64,
    /// Number of packets sent in all rounds. All of them arrived.
    pub sent: u64,
    /// Number of packets that were not dropped.
    pub delivered: u64,
    /// Percent of the packets of a mix that were dropped before all rounds, with rates of next to nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<u64>,
}

/// A subject that could not be measured.
#[derive(Clone, Debug, Serialize)]
pub struct LeftOut {
    #[serde(flatten)]
    pub case: Case,
    pub subject: &'static str,
    pub why: String,
}

/// The results of all cases until now.
#[derive(Debug, Default, Serialize)]
pub struct Results {
    pub results: Vec<Measured>,
    pub left_out: Vec<LeftOut>,
}

/// An installed subject on its own hosts, and its figures so far.
struct Standing {
    subject: &'static Subject,
    testbed: Testbed,
    senders: Senders,
    turns: Vec<Turn>,
    held: Option<u64>,
    installed: Installed,
}

impl Results {
    /// Measures a case.
    pub fn measure(&mut self, case: Case, plan: &Plan, cpus: &[usize]) -> Result<()> {
        let mut standing = Vec::new();
        for subject in plan.subjects(case) {
            let set_up = Standing::set_up(subject, case, plan, cpus);
            standing.extend(self.unless_left_out(case, subject, set_up));
        }
        for _ in 0..plan.rounds {
            standing.retain_mut(|measurement| {
                let turn = again(|| measurement.turn(case, plan));
                let turn = self.unless_left_out(case, measurement.subject, turn);
                measurement.turns.extend(turn);
                turn.is_some()
            });
        }
        let floor = Subject::floor(case.verdict).0;
        let mut floors = standing
            .iter()
            .filter(|measurement| measurement.subject.0 == floor);
        let floor = floors.next().map(|bare| bare.median());
        let floor = floor.with_context(|| format!("no bare program: {:?}", self.left_out))?;
        let measured = standing
            .iter()
            .map(|measurement| measurement.measured(case, floor));
        self.results.extend(measured);
        Ok(())
    }

    fn unless_left_out<T>(
        &mut self,
        case: Case,
        subject: &Subject,
        result: Result<T>,
    ) -> Option<T> {
        let leave_out = |error: anyhow::Error| {
            self.left_out.push(LeftOut {
                case,
                subject: subject.0,
                why: format!("{error:#}"),
            });
        };
        result.map_err(leave_out).ok()
    }
}

/// Retries the work, which may fail by chance on a busy machine, or if a host sends a packet on its own.
fn again<T>(mut work: impl FnMut() -> Result<T>) -> Result<T> {
    work().or_else(|_| work()).or_else(|_| work())
}

/// Installs a recipe's rules with rates of next to nothing. Returns the percentage of packets that they drop: all that
/// the limits count, and no others.
fn held(
    subject: &Subject,
    case: Case,
    plan: &Plan,
    testbed: &Testbed,
    senders: &mut Senders,
) -> Result<u64> {
    const PACKETS: u32 = 10_000;
    let verdict = Verdict::Dropped;
    let _installed = subject.install(Case { verdict, ..case }, testbed)?;
    again(|| senders.send(testbed, plan.to_fill(case)))?;
    let turn = again(|| senders.send(testbed, PACKETS))?;
    let (passed, unlimited) = (turn.delivered * 100, turn.sent * case.traffic.unlimited());
    ensure!(
        passed == unlimited,
        "with low rates {} of {} packets passed",
        turn.delivered,
        turn.sent
    );
    Ok(100 - passed / turn.sent)
}

impl Standing {
    /// Installs a subject, and sends it a packet of each source.
    fn set_up(subject: &'static Subject, case: Case, plan: &Plan, cpus: &[usize]) -> Result<Self> {
        /// More packets than the socket holds.
        const FILL_SOCKET: u32 = 300;
        let testbed = Testbed::build(case)?;
        let mut senders = Senders::new(case, &testbed, cpus)?;
        again(|| senders.send(&testbed, FILL_SOCKET))?;
        let held = subject
            .has_rules()
            .then(|| held(subject, case, plan, &testbed, &mut senders))
            .transpose()?;
        let installed = subject.install(case, &testbed)?;
        again(|| senders.send(&testbed, plan.to_fill(case)))?;
        Ok(Self {
            subject,
            testbed,
            senders,
            turns: Vec::new(),
            held,
            installed,
        })
    }

    /// Takes a turn. Fails if a packet was lost, or if the subject did not do what is measured.
    fn turn(&mut self, case: Case, plan: &Plan) -> Result<Turn> {
        let turn = if case.sources == Sources::Hot {
            let program = self.installed.program.as_ref();
            let program = program.context("it is no XDP program")?.as_fd();
            offer::repeat(program, case, &self.testbed, plan.packets)?
        } else {
            let warm_up = plan.warm_up(case.sources);
            self.senders.send(&self.testbed, warm_up)?;
            self.senders.send(&self.testbed, plan.packets)?
        };
        let Turn {
            sent, delivered, ..
        } = turn;
        let all_pass = case.verdict == Verdict::Passed || !self.subject.limits();
        // Allows one in a hundred, because some subjects forget a source at times.
        let as_expected = match case.sources {
            _ if all_pass => delivered == sent,
            Sources::New => true,
            _ => delivered * 100 <= sent,
        };
        ensure!(as_expected, "{delivered} of {sent} packets passed");
        Ok(turn)
    }

    /// Nanoseconds of all rounds, in ascending order.
    fn sorted(&self) -> Vec<f64> {
        let mut rounds: Vec<_> = self.turns.iter().map(|turn| turn.nanoseconds).collect();
        rounds.sort_by(f64::total_cmp);
        rounds
    }

    /// The median of all rounds. Of two middle figures, it is the higher one.
    fn median(&self) -> f64 {
        self.sorted()[self.turns.len() / 2]
    }

    fn measured(&self, case: Case, floor: f64) -> Measured {
        let (median, rounds) = (self.median(), self.sorted());
        Measured {
            case,
            subject: self.subject.0,
            median,
            min: rounds[0],
            quartiles: [1, 3].map(|quarter| rounds[rounds.len() * quarter / 4]),
            max: rounds[rounds.len() - 1],
            over_floor: median - floor,
            times_floor: median / floor,
            sent: self.turns.iter().map(|turn| turn.sent).sum(),
            delivered: self.turns.iter().map(|turn| turn.delivered).sum(),
            held: self.held,
        }
    }
}

//! Measures one case. Its subjects take turns, so that other load on the machine affects all of them equally.

use std::any::Any;

use anyhow::{Result, bail};
use serde::Serialize;

use super::{
    case::{Case, Sources, Verdict},
    offer::{Senders, Turn},
    plan::Plan,
    subject::Subject,
    testbed::Testbed,
};

/// A figure over all rounds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sample {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Sample {
    /// Statistics of the rounds' figures; none without rounds. Of two middle figures, the median is the higher one.
    pub fn of(mut rounds: Vec<f64>) -> Option<Self> {
        rounds.sort_by(f64::total_cmp);
        Some(Self {
            median: *rounds.get(rounds.len() / 2)?,
            min: *rounds.first()?,
            max: *rounds.last()?,
        })
    }
}

/// The result of one subject in one case.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    #[serde(flatten)]
    pub case: Case,
    pub subject: Subject,
    /// Nanoseconds of processor time per packet, including its sending.
    #[serde(flatten)]
    pub sample: Sample,
    /// Nanoseconds more than the bare program.
    pub over_floor: f64,
    /// The figure as a multiple of the bare program's figure.
    pub times_floor: f64,
    /// Number of packets sent in all rounds. All of them arrived.
    pub sent: u64,
    /// Number of packets that were not dropped.
    pub delivered: u64,
}

/// A subject that could not be measured.
#[derive(Clone, Debug, Serialize)]
pub struct LeftOut {
    #[serde(flatten)]
    pub case: Case,
    pub subject: Subject,
    pub why: String,
}

pub struct Series {
    pub measured: Vec<Measured>,
    pub left_out: Vec<LeftOut>,
}

/// An installed subject on its own hosts, and its figures so far.
struct Standing {
    subject: Subject,
    testbed: Testbed,
    senders: Senders,
    turns: Vec<Turn>,
    /// The error that ended the subject's turns.
    failed: Option<String>,
    _installed: Box<dyn Any>,
}

/// Measures a case.
pub fn measure(case: Case, plan: &Plan, cpus: &[usize]) -> Result<Series> {
    let (mut standing, mut left_out) = (Vec::new(), Vec::new());
    let leave_out = |subject, why| LeftOut { case, subject, why };
    for subject in plan.subjects(case) {
        match Standing::set_up(subject, case, plan, cpus) {
            Ok(set_up) => standing.push(set_up),
            Err(error) => left_out.push(leave_out(subject, format!("{error:#}"))),
        }
    }
    for _ in 0..plan.rounds {
        for one in standing.iter_mut().filter(|one| one.failed.is_none()) {
            match again(|| one.turn(case, plan)) {
                Ok(turn) => one.turns.push(turn),
                Err(error) => one.failed = Some(format!("{error:#}")),
            }
        }
    }
    let mut measured = Vec::new();
    for one in standing {
        match (&one.failed, Sample::of(one.nanoseconds())) {
            (None, Some(sample)) => measured.push(one.measured(case, sample)),
            (why, _) => {
                let why = why.clone().unwrap_or_else(|| "no rounds".into());
                left_out.push(leave_out(one.subject, why));
            }
        }
    }
    let floor = measured
        .iter()
        .find(|one| one.subject == Subject::floor(case.verdict));
    let Some(floor) = floor.map(|one| one.sample.median) else {
        let why: Vec<String> = left_out
            .iter()
            .map(|one| format!("{}: {}", one.subject.name(), one.why))
            .collect();
        bail!("{case}: no bare program: {}", why.join("; "));
    };
    for one in &mut measured {
        one.over_floor = one.sample.median - floor;
        one.times_floor = one.sample.median / floor;
    }
    Ok(Series { measured, left_out })
}

/// Retries the work, which may fail by chance on a busy machine, or if a host sends a packet on its own.
fn again<T>(mut work: impl FnMut() -> Result<T>) -> Result<T> {
    const TRIES: u32 = 3;
    for _ in 1..TRIES {
        if let Ok(done) = work() {
            return Ok(done);
        }
    }
    work()
}

impl Standing {
    /// Installs a subject, and sends it a packet of each source.
    fn set_up(subject: Subject, case: Case, plan: &Plan, cpus: &[usize]) -> Result<Self> {
        /// More packets than the socket holds.
        const FILL_SOCKET: u32 = 256;
        let testbed = Testbed::build(case.cpus.count())?;
        let senders = Senders::new(case, &testbed, cpus)?;
        again(|| senders.send(&testbed, FILL_SOCKET))?;
        let installed = subject.install(case, &testbed)?;
        again(|| senders.send(&testbed, plan.to_fill(case.sources)))?;
        Ok(Self {
            subject,
            testbed,
            senders,
            turns: Vec::new(),
            failed: None,
            _installed: installed,
        })
    }

    /// Takes a turn. Fails if a packet was lost, or if the subject did not do what is measured.
    fn turn(&self, case: Case, plan: &Plan) -> Result<Turn> {
        self.senders
            .send(&self.testbed, plan.warm_up(case.sources))?;
        let turn = self.senders.send(&self.testbed, plan.packets)?;
        let Turn {
            sent, delivered, ..
        } = turn;
        let all_pass = case.verdict == Verdict::Passed || !self.subject.limits();
        if all_pass && delivered != sent {
            bail!("{delivered} of {sent} packets passed, and all should have");
        }
        // Allows one in a hundred, because some subjects forget a source at times.
        let known = case.sources != Sources::New;
        if !all_pass && known && delivered * 100 > sent {
            bail!("{delivered} of {sent} packets passed, and hardly any should have");
        }
        Ok(turn)
    }

    fn nanoseconds(&self) -> Vec<f64> {
        self.turns.iter().map(|turn| turn.nanoseconds).collect()
    }

    fn measured(&self, case: Case, sample: Sample) -> Measured {
        Measured {
            case,
            subject: self.subject,
            sample,
            over_floor: 0.0,
            times_floor: 1.0,
            sent: self.turns.iter().map(|turn| turn.sent).sum(),
            delivered: self.turns.iter().map(|turn| turn.delivered).sum(),
        }
    }
}

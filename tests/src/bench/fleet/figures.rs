//! Measures one case of the fleet benchmark.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures_util::future::try_join_all;
use limiter_common::arithmetic::bucket::TICKS_PER_SECOND;
use limiter_fleet::{
    conflicts::Held,
    store::{Options, Store, Target},
};
use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeValLike as _,
};
use serde::{Deserialize, Serialize};

use super::{
    case::Case,
    member::{FLEET, LIMIT, Simulated},
    servers::{Done, Servers},
};
use crate::sample::Sample;

/// Longer than the round with the most sources.
const PATIENCE: Duration = Duration::from_secs(120);
/// Number of records from which their memory exceeds all other changes.
const RECORDS_MIN: f64 = 80_000.0;
/// Seconds over which heartbeats are measured, and heartbeats per second.
const SECONDS: u32 = 3;
const BEATS: u32 = 4;

#[derive(Debug, Serialize, Deserialize)]
pub struct Figures {
    pub case: Case,
    /// Seconds of a round, from the scan to the last answer.
    pub round: Sample,
    /// Bytes from one member to the store in a round.
    pub to_store: f64,
    /// Bytes from the store to one member in a round.
    pub from_store: f64,
    /// Microseconds of the store's processor time for one source of one member in one round.
    pub store_us: f64,
    /// Microseconds of the member's processor time for one source in one round.
    pub agent_us: f64,
    /// Share of the time in which the store's processor was busy; in a cluster, the busiest node's.
    pub store_busy: f64,
    /// Bytes of the store's memory per source; none if there are too few sources to tell.
    pub store_memory: Option<f64>,
    /// Bytes of a member's memory per source.
    pub agent_memory: f64,
    /// Bytes and records of a cluster's busiest node, as a multiple of an equal share.
    pub unevenness: [f64; 2],
    /// Bytes per second of a member's heartbeats, to and from the store.
    pub beside: [f64; 2],
    /// Microseconds of the store's processor time per second for heartbeats.
    pub beside_us: f64,
}

/// Sum and maximum of a figure over servers.
fn over(servers: &[(Done, Done)], figure: impl Fn(&Done) -> f64) -> (f64, f64) {
    let each = servers.iter().map(|(from, to)| figure(to) - figure(from));
    each.fold((0.0, 0.0), |(sum, most), one| {
        (sum + one, f64::max(most, one))
    })
}

/// Measures one case.
pub fn measure(case: Case) -> Result<Figures> {
    let servers = Servers::start(case.cluster);
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build()?;
    runtime.block_on(run(case, &servers))
}

async fn run(case: Case, servers: &Servers) -> Result<Figures> {
    let options = Options {
        connect_timeout: PATIENCE,
        response_timeout: PATIENCE,
        ..Options::new(&servers.url())
    };
    let target = Target::read(&options)?;
    let mut members = Vec::new();
    for number in 0..case.agents {
        members.push((number, Store::connect(&target).await?));
    }
    let (before, memory) = (servers.done()?, resident()?);
    let members = members.into_iter();
    let mut members: Vec<_> = members
        .map(|(number, store)| Simulated::new(case, number, store))
        .collect();
    // The first round makes the records. The second round makes the room that all later rounds need.
    all_round(&mut members, 1).await?;

    let (from, cpu, began) = (servers.done()?, processor_time()?, Instant::now());
    let rounds = all_round(&mut members, case.rounds).await?;
    let (took, cpu) = (began.elapsed().as_secs_f64(), processor_time()? - cpu);
    let (to, memory) = (servers.done()?, resident()? - memory);
    beat(&mut members).await?;
    let beaten = servers.done()?;

    let kept: Vec<_> = before.into_iter().zip(to.iter().copied()).collect();
    let beats: Vec<_> = to.iter().copied().zip(beaten).collect();
    let done: Vec<_> = from.into_iter().zip(to).collect();
    let turns = f64::from(case.agents * case.rounds);
    let nodes = f64::from(u32::try_from(done.len())?);
    let (received, most_received) = over(&done, |of| of.received);
    let (busy, most_busy) = over(&done, |of| of.cpu);
    let (keys, most_keys) = over(&kept, |of| of.keys);
    let seconds = f64::from(case.agents * SECONDS);
    Ok(Figures {
        case,
        round: Sample::of(rounds).context("no rounds")?,
        to_store: received / turns,
        from_store: over(&done, |of| of.sent).0 / turns,
        store_us: busy * 1e6 / case.held() / f64::from(case.rounds),
        agent_us: cpu * 1e6 / case.held() / f64::from(case.rounds),
        store_busy: most_busy / took,
        store_memory: (keys >= RECORDS_MIN).then(|| over(&kept, |of| of.memory).0 / keys),
        agent_memory: memory / case.held(),
        unevenness: [most_received * nodes / received, most_keys * nodes / keys],
        beside: [
            over(&beats, |of| of.received).0 / seconds,
            over(&beats, |of| of.sent).0 / seconds,
        ],
        beside_us: over(&beats, |of| of.cpu).0 * 1e6 / seconds,
    })
}

/// Runs `rounds` rounds of all members without pause. Returns their durations.
async fn all_round(members: &mut [Simulated], rounds: u32) -> Result<Vec<f64>> {
    let each = members.iter_mut().map(async |member| {
        let mut took = Vec::new();
        for _ in 0..rounds {
            took.push(member.round().await?.as_secs_f64());
        }
        anyhow::Ok(took)
    });
    Ok(try_join_all(each).await?.concat())
}

async fn beat(members: &mut [Simulated]) -> Result<()> {
    let alive = Duration::from_secs(3);
    for _ in 0..SECONDS * BEATS {
        try_join_all(members.iter_mut().map(async |member| {
            let label = format!("host-{}/eth0", member.id);
            let (id, store) = (member.id, &mut member.store);
            store.heartbeat(FLEET, id, &label, &[held()], alive).await
        }))
        .await?;
    }
    Ok(())
}

/// The limit of all members.
fn held() -> Held {
    Held {
        name: LIMIT.to_owned(),
        quota: format!(
            "/32,/64 {} {}",
            TICKS_PER_SECOND / 100,
            2 * TICKS_PER_SECOND
        ),
        words: "100/s, burst 200, per /32,/64".to_owned(),
    }
}

/// Processor time of this process in seconds.
fn processor_time() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let time = usage.user_time() + usage.system_time();
    Ok(Duration::from_micros(time.num_microseconds().unsigned_abs()).as_secs_f64())
}

/// Memory of this process in bytes.
fn resident() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let text = line.context("no VmRSS")?.trim().trim_end_matches(" kB");
    Ok(text.parse::<f64>()? * 1024.0)
}

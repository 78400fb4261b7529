//! An agent sends all data over a link to the store that is too narrow to take them at once.

use std::{net::Ipv4Addr, thread, time::Duration};

use limiter_tests::{
    eventually,
    fleet::{Bucket, Load},
};

use super::{case::Case, fleet};
use crate::shared::limits_of;

/// Number of sources, which an agent reports in sixteen rounds.
const SOURCES: u16 = 2_400;
/// Bytes per second of the link. All rounds together take four seconds. An agent waits one second for an answer.
const NARROW: u32 = 40_000;
/// Time in which an agent adapts its pace.
const SETTLED: Duration = Duration::from_secs(3);
const BURST: u64 = 20;
/// Number of packets of one source that another host sees.
const ELSEWHERE: u32 = 8;

fn source(number: u16) -> Ipv4Addr {
    let [high, low] = number.to_be_bytes();
    Ipv4Addr::new(198, 18, high, low)
}

#[test]
fn news_of_all_sources_arrives_over_a_narrow_link() {
    let fleet = fleet!(
        &limits_of(Bucket {
            rate: 1,
            burst: BURST
        })
        .replace("1/s", "1/h")
    );
    // At the start, the agent asks for all sources in use.
    fleet.spread(&[1, 0, 0]);
    let once = Load::of_many((0..SOURCES).map(source).collect(), 5_000, Duration::ZERO);
    let _ = fleet.send(&Load {
        packets: SOURCES.into(),
        ..once
    });
    let case = Case::new(&fleet);
    fleet.network.narrow(0, NARROW);
    thread::sleep(SETTLED);
    let some: Vec<_> = (0..SOURCES).step_by(50).map(source).collect();
    fleet.spread(&[0, 1, 0]);
    let _ = fleet.send(&Load {
        packets: ELSEWHERE * u32::try_from(some.len()).unwrap(),
        ..Load::of_many(some.clone(), 2_000, Duration::ZERO)
    });
    for source in some {
        eventually(&format!("host 0 has heard of {source}"), || {
            let tokens = case.fleet.check(0, source)["limits"][0]["tokens"].as_f64();
            tokens < Some((BURST - u64::from(ELSEWHERE)) as f64 + 0.5)
        });
    }
    // The agent has adapted its pace: no answer is late, so no packet is reported twice.
    let lapses = || case.agents[0].printed().matches("has not answered").count();
    let before = lapses();
    thread::sleep(SETTLED);
    let says = case.says(0);
    assert!(says["sources"].as_u64() >= Some(SOURCES.into()), "{says}");
    let stale = says["staleness_seconds"].as_f64();
    println!("{lapses} lapses, stale by {stale:?} s", lapses = lapses());
    // Data are stale for more than a second, but no round waits for long.
    assert!(stale > Some(1.0) && stale < Some(10.0), "{says}");
    assert_eq!(lapses(), before, "{}", case.agents[0].printed());
}

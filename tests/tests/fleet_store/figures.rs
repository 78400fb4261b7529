//! Measures a round: `cargo xtask test fleet_store::figures fleet_postgres::figures -- --ignored --nocapture`.

use std::time::{Duration, Instant};

use limiter_tests::{processes::cpu_of, proxy::Proxy};

use super::{Server, members::held, options, round, try_connect};

/// Time of each measurement.
const TIME: Duration = Duration::from_secs(5);

/// One member sends rounds without pause.
#[test]
#[ignore = "a measurement"]
fn figures_of_a_round() {
    if !Server::is_there("figures") {
        return;
    }
    let server = Server::start();
    let link = Proxy::to(server.port);
    let url = link.url(&server.agent_url(), server.port);
    let mut store = try_connect(&options(&url)).unwrap();
    println!("sources  bytes/source  store us/source  median ms  99th ms");
    let mut number = 0;
    for sources in [1, 10, 100, 1_000] {
        let items: Vec<_> = (0..sources).map(|source| (source * 257, 3)).collect();
        let mut times = Vec::new();
        let (mut before, mut began) = ((0, 0), Instant::now());
        while times.len() < 20 || began.elapsed() < TIME {
            number += 1;
            let sent = Instant::now();
            store.exchange(1, &round(number, &items));
            times.push(sent.elapsed());
            // The first rounds make records and plans.
            if times.len() == 20 && before.0 == 0 {
                times.clear();
                before = (link.bytes(), server.processes().map(cpu_of).sum());
                began = Instant::now();
            }
        }
        let cpu: u64 = server.processes().map(cpu_of).sum();
        let charges = times.len() as f64 * f64::from(sources);
        let each = (link.bytes() - before.0) as f64 / charges;
        let micros = (cpu - before.1) as f64 / charges;
        times.sort();
        let percentile = |share: usize| times[times.len() * share / 100].as_secs_f64() * 1e3;
        println!(
            "{sources:>7} {each:>13.0} {micros:>16.1} {:>10.2} {:>8.2}",
            percentile(50),
            percentile(99)
        );
    }
    let before = server.size();
    for part in 0..50 {
        let items: Vec<_> = (0..1_000)
            .map(|source| (1 << 20 | part << 10 | source, 3))
            .collect();
        number += 1;
        store.exchange(1, &round(number, &items));
    }
    let size = (server.size() - before) / 50_000;
    println!("{size} bytes per record");
    for members in [10, 100, 1_000] {
        let beats = 2_000;
        let mut before = 0;
        for beat in 0..members + beats {
            // First, all members come to life.
            if beat == members {
                before = server.processes().map(cpu_of).sum();
            }
            store.beat(beat % members, &[held("all", 1)], Duration::from_secs(60));
        }
        let cpu = server.processes().map(cpu_of).sum::<u64>() - before;
        println!("{} us per heartbeat, {members} members", cpu / beats);
    }
}

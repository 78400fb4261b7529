//! Measures a round: `cargo test --release -p limiter-tests --test fleet_store --test fleet_postgres -- --ignored
//! --nocapture figures`.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use limiter_tests::processes::cpu_of;

use super::{Server, options, round, try_connect};

/// Time of each measurement.
const TIME: Duration = Duration::from_secs(5);

/// Forwards connections to a port on loopback, and counts bytes in both directions. Returns the port.
fn proxy(to: u16) -> (u16, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let bytes = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&bytes);
    let forward = move |mut from: TcpStream, mut to: TcpStream, counter: Arc<AtomicU64>| {
        let mut part = vec![0; 1 << 16];
        while let Ok(length @ 1..) = from.read(&mut part) {
            counter.fetch_add(length as u64, Relaxed);
            to.write_all(&part[..length]).unwrap();
        }
        let _ = to.shutdown(Shutdown::Both);
    };
    thread::spawn(move || {
        for client in listener.incoming() {
            let (client, server) = (
                client.unwrap(),
                TcpStream::connect(("127.0.0.1", to)).unwrap(),
            );
            for stream in [&client, &server] {
                stream.set_nodelay(true).unwrap();
            }
            let back = (server.try_clone().unwrap(), client.try_clone().unwrap());
            let (there, here) = (Arc::clone(&counter), Arc::clone(&counter));
            thread::spawn(move || forward(client, server, there));
            thread::spawn(move || forward(back.0, back.1, here));
        }
    });
    (port, bytes)
}

/// One member sends rounds without pause.
#[test]
#[ignore = "a measurement"]
fn figures_of_a_round() {
    if !Server::is_there("figures") {
        return;
    }
    let server = Server::start();
    let (port, bytes) = proxy(server.port);
    let url = server
        .agent_url()
        .replace(&server.port.to_string(), &port.to_string());
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
                before = (bytes.load(Relaxed), server.processes().map(cpu_of).sum());
                began = Instant::now();
            }
        }
        let cpu: u64 = server.processes().map(cpu_of).sum();
        let of = times.len() as f64 * f64::from(sources);
        let each = (bytes.load(Relaxed) - before.0) as f64 / of;
        let micros = (cpu - before.1) as f64 / of;
        times.sort();
        let at = |share: usize| times[times.len() * share / 100].as_secs_f64() * 1e3;
        println!(
            "{sources:>7} {each:>13.0} {micros:>16.1} {:>10.2} {:>8.2}",
            at(50),
            at(99)
        );
    }
}

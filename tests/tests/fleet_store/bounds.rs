//! A hostile server that sends endless replies does not fill the agent's memory.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};

use limiter_tests::{
    eventually,
    exporter::loopback_up,
    fleet::Agent,
    hosts::{Hosts, on},
    need_kernel,
    processes::status_of,
};

use super::hostile::{ASKED, HOSTILE, INFO, SCHEME};

/// Maximum number of bytes that the server sends.
const MOST: usize = 600 << 20;

/// Sends until the reader closes the connection.
fn send_without_end(stream: &mut TcpStream, (begin, again): (&str, &str)) {
    let part = again.repeat((1 << 16) / again.len());
    let mut sent = 0;
    let mut all = stream.write_all(begin.as_bytes());
    while all.is_ok() && sent < MOST {
        sent += part.len();
        all = stream.write_all(part.as_bytes());
    }
}

/// Answers the request that identifies the server with `info`, and sends hostile replies to all others. Counts the
/// connections.
fn serve(
    listener: TcpListener,
    info: Option<&'static str>,
    then: (&'static str, &'static str),
) -> Arc<AtomicU32> {
    let connections = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&connections);
    let answer = move |mut stream: TcpStream| {
        let mut question = [0; 1 << 16];
        while let Ok(length @ 1..) = stream.read(&mut question) {
            let asked = String::from_utf8_lossy(&question[..length]);
            match info.filter(|_| asked.contains(ASKED)) {
                Some(info) => drop(stream.write_all(info.as_bytes())),
                None => send_without_end(&mut stream, then),
            }
        }
    };
    thread::spawn(move || {
        for stream in listener.incoming() {
            counted.fetch_add(1, Ordering::Relaxed);
            let stream = stream.unwrap();
            thread::spawn(move || answer(stream));
        }
    });
    connections
}

fn megabytes(status: &str) -> u64 {
    status.trim_end_matches(" kB").parse::<u64>().unwrap() / 1_024
}

#[test]
fn agent_of_a_hostile_store_stays_small_and_retries() {
    const BOUND: u64 = 96;
    need_kernel!();
    for info in [None, Some(INFO)] {
        for &hostile in HOSTILE {
            let hosts = Hosts::new();
            loopback_up(&hosts.server);
            hosts.attach_file(
                "interfaces = [\"eth0\"]\nfleet = \"edge\"\n[lists]\ndeny = { scope = \"fleet\" }\n[[limit]]\nname = \"all\"\nrate = \"10/s\"\nscope = \"fleet\"\n",
            );
            let listener = on(&hosts.server, || TcpListener::bind("127.0.0.1:0")).unwrap();
            let url = format!("{SCHEME}{}", listener.local_addr().unwrap());
            let connections = serve(listener, info, hostile);
            let agent = Agent::start(&hosts.server, &url, &[]);
            agent.wait_until_it_says("until then each host applies the limits alone");
            // Waits for some more attempts.
            thread::sleep(Duration::from_secs(1));
            let tried_again = || connections.load(Ordering::Relaxed) > 1;
            eventually("the agent retries", tried_again);
            let most = megabytes(&status_of(agent.process(), "VmHWM"));
            assert!(most < BOUND, "{info:?} {hostile:?}: {most} MiB");
            // A long reply may exceed the timeout before it is refused.
            let text = agent.printed();
            let is_said = ["sent an invalid answer", "has not answered within"];
            assert!(is_said.iter().any(|words| text.contains(words)), "{text}");
        }
    }
}

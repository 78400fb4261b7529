//! Three sources above the limit that send until the flood is dropped.

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use limiter_tests::{hosts::Hosts, raw::Raw, traffic::udp};

/// Sources, with their packets per 10 ms: each always sends more than the next.
const SOURCES: [(&str, usize); 3] = [(super::FLOODER, 16), ("192.0.2.7", 4), ("192.0.2.9", 1)];

/// Longer than any test.
const LONGEST: Duration = Duration::from_secs(120);

/// A flood that ends when dropped.
pub struct Flood {
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Flood {
    /// From the client to the server.
    pub fn start(hosts: &Hosts) -> Self {
        let wire = Raw::open(&hosts.client);
        let frames = SOURCES.map(|(source, count)| {
            let source: IpAddr = source.parse().unwrap();
            (udp(hosts, source, 9), count)
        });
        let end = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&end);
        let thread = thread::spawn(move || {
            let begin = Instant::now();
            while !ended.load(Ordering::Relaxed) && begin.elapsed() < LONGEST {
                for (frame, count) in &frames {
                    (0..*count).for_each(|_| wire.send(frame));
                }
                thread::sleep(Duration::from_millis(10));
            }
        });
        Self {
            end,
            thread: Some(thread),
        }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A wire that is gone is no failure of the test.
            let _ = thread.join();
        }
    }
}

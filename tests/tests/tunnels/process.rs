//! The process at the ends of two tun interfaces, which passes packets on from each to the other.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use limiter_tests::{hosts::Hosts, tun::Tun};

use super::link::TUNNEL;

/// Threads that pass packets on until it is dropped.
pub struct Process {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Process {
    /// Makes both interfaces. None if this kernel has no tun.
    pub fn start(hosts: &Hosts) -> Option<Self> {
        let open = |host| Tun::new(host, TUNNEL).ok().map(Arc::new);
        let ends = [open(&hosts.server)?, open(&hosts.client)?];
        let is_over = Arc::new(AtomicBool::new(false));
        let pass = |from: &Arc<Tun>, receiver: &Arc<Tun>| {
            let (from, receiver, is_over) = (from.clone(), receiver.clone(), is_over.clone());
            thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let packets = from.sent(Duration::from_millis(5));
                    packets.iter().for_each(|packet| receiver.arrive(packet));
                }
            })
        };
        let [server, client] = &ends;
        let threads = vec![pass(server, client), pass(client, server)];
        Some(Self { is_over, threads })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

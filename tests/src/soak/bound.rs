//! Checks that no source gets more than burst + rate × t between any two readings.

use std::{net::IpAddr, sync::atomic::Ordering, time::Instant};

use super::{
    BURST, RATE, Soak,
    frames::{DENIED, PARTNER, RESET, heavy},
};

/// The bounds of all heavy sources.
#[derive(Debug)]
pub struct Bounds {
    began: Instant,
    each: Vec<Bound>,
}

/// The bound of one source.
#[derive(Debug)]
struct Bound {
    source: IpAddr,
    /// Minimum of packets received minus refill, over all readings.
    least: f64,
    /// Share of burst + rate × t since the beginning that was received.
    used: f64,
    /// Smallest distance to the bound in any interval, in packets.
    room: f64,
}

/// Packets that a reset may add: a full bucket, and the packet that is being processed.
const PER_RESET: f64 = BURST as f64 + 1.0;

impl Bounds {
    /// Bounds for an attachment that was made after `began`.
    pub fn new(began: Instant) -> Self {
        let touched = [DENIED, PARTNER, RESET].map(IpAddr::V4);
        let sources = heavy().into_iter().chain(touched);
        let bound = |source| Bound {
            source,
            least: 0.0,
            used: 0.0,
            room: f64::INFINITY,
        };
        Self {
            began,
            each: sources.map(bound).collect(),
        }
    }

    /// Takes a reading. It includes all packets that passed before `before`, and none that passed after `after`.
    pub fn check(&mut self, soak: &Soak<'_>) {
        let given = |count: u64| PER_RESET * count as f64;
        let done = soak.resets.1.load(Ordering::SeqCst);
        let before = self.began.elapsed().as_secs_f64();
        soak.arrivals.settle(soak.hosts);
        let come: Vec<_> = self
            .each
            .iter()
            .map(|one| soak.arrivals.from(one.source))
            .collect();
        let after = self.began.elapsed().as_secs_f64();
        let begun = soak.resets.0.load(Ordering::SeqCst);
        for (bound, come) in self.each.iter_mut().zip(come) {
            let (begun, done) = if bound.source == RESET {
                (given(begun), given(done))
            } else {
                (0.0, 0.0)
            };
            bound.look(come as f64, (before, done), (after, begun));
            if soak.goes_on() {
                bound.used = come as f64 / (f64::from(BURST) + f64::from(RATE) * after);
            }
        }
        soak.count("check of the bounds");
    }

    /// The smallest and the largest used share since the beginning, of the sources that no command affects.
    pub fn used(&self) -> (f64, f64) {
        let heavy = heavy();
        let of = self.each.iter().filter(|one| heavy.contains(&one.source));
        let shares = of.map(|one| one.used);
        shares.fold((1.0, 0.0), |(least, most), share| {
            (share.min(least), share.max(most))
        })
    }

    /// Smallest distance of any source to its bound, in packets.
    pub fn room(&self) -> f64 {
        let each = self.each.iter().map(|one| one.room);
        each.fold(f64::INFINITY, f64::min)
    }
}

impl Bound {
    fn look(&mut self, come: f64, before: (f64, f64), after: (f64, f64)) {
        let brought = |(time, given): (f64, f64)| f64::from(RATE) * time + given;
        let most = f64::from(BURST) + brought(after) + self.least;
        assert!(
            come <= most,
            "{}: {come} packets passed until {:.6} s, but burst + rate × t allows {most:.3}",
            self.source,
            after.0
        );
        self.room = self.room.min(most - come);
        self.least = self.least.min(come - brought(before));
    }
}

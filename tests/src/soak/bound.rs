//! Checks that no source gets more than burst + rate × t between any two readings.

use std::{net::IpAddr, time::Instant};

use super::{
    BURST, RATE, Soak,
    frames::{DENIED, heavy},
};

/// The bounds of all heavy sources, and of the source that is denied at times.
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

impl Bounds {
    /// Bounds for an attachment that was made after `began`.
    pub fn new(began: Instant) -> Self {
        let bound = |source| Bound {
            source,
            least: 0.0,
            used: 0.0,
            room: f64::INFINITY,
        };
        let sources = heavy().into_iter().chain([DENIED.into()]);
        let each = sources.map(bound).collect();
        Self { began, each }
    }

    /// Takes a reading. It includes all packets that passed before `before`, and none that passed after `after`.
    pub fn check(&mut self, soak: &Soak<'_>) {
        let before = self.began.elapsed().as_secs_f64();
        soak.arrivals.settle(soak.hosts);
        let come = |bound: &Bound| soak.arrivals.from(bound.source) as f64;
        let come: Vec<f64> = self.each.iter().map(come).collect();
        let after = self.began.elapsed().as_secs_f64();
        for (bound, come) in self.each.iter_mut().zip(come) {
            let granted = f64::from(BURST) + f64::from(RATE) * after;
            let most = granted + bound.least;
            assert!(
                come <= most,
                "{}: {come} packets passed until {after:.6} s, but burst + rate × t allows {most:.3}",
                bound.source
            );
            bound.room = bound.room.min(most - come);
            bound.least = bound.least.min(come - f64::from(RATE) * before);
            if soak.goes_on() {
                bound.used = come / granted;
            }
        }
        soak.count("check of the bounds");
    }

    /// The smallest and the largest used share since the beginning, of the sources that no command affects.
    pub fn used(&self) -> (f64, f64) {
        let of = self.each.iter().filter(|one| one.source != DENIED);
        of.map(|one| one.used)
            .fold((1.0, 0.0), |(least, most), share| {
                (share.min(least), share.max(most))
            })
    }

    /// Smallest distance of any source to its bound, in packets.
    pub fn room(&self) -> f64 {
        let each = self.each.iter().map(|one| one.room);
        each.fold(f64::INFINITY, f64::min)
    }
}

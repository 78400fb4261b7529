//! The traffic of an interface, as the program of `learn` reports it.

use limiter_common::{
    abi::learn::{Sample, Service},
    table::key::Address,
};
use limiter_config::Mode;
use limiter_kernel::{
    Result,
    ops::learn::{Observed, Sightings, Watch},
};

use super::{
    Watched,
    sample::{DEMANDS_MAX, Sampler},
};

/// Begins to observe the interface called `name` by a program in `mode`.
pub async fn start(name: &str, mode: Mode) -> Result<Watch<Sampler>> {
    Watch::start(name, mode, |seed| Sampler::new(seed, DEMANDS_MAX)).await
}

impl Sightings for Sampler {
    fn see(&mut self, time: u64, source: Address, service: Service, packets: u64) {
        self.see(time, source, service, packets);
    }

    fn sample(&self) -> Sample {
        self.sample
    }

    fn halve(&mut self) {
        self.halve();
    }
}

impl From<Observed<Sampler>> for Watched {
    fn from(observed: Observed<Sampler>) -> Self {
        let Observed {
            sightings,
            totals,
            in_use,
            begun,
            duration,
        } = observed;
        Self::new_observed(sightings, totals, in_use, [begun, duration])
    }
}

//! The scale of one limit: it falls by a factor while a signal is over its value, and rises by steps otherwise.

use limiter_common::arithmetic::scale::{ONE, word};
use limiter_config::adaptive::{Percent, stretch_of};

/// Time between two rounds, in nanoseconds.
pub const ROUND: u64 = 1_000_000_000;
/// Time for which a scale holds without the process, in nanoseconds.
pub const HOLDS: u64 = 5 * ROUND;
/// In a round, the scale falls to this part of itself.
pub const DOWN: (u32, u32) = (7, 10);
/// In a round, the scale rises by this part of the configured rate.
pub const UP: u32 = ONE / 20;

/// The scale of a limit, between its floor and [`ONE`].
#[derive(Clone, Copy, Debug)]
pub struct Controller {
    floor: u32,
    scale: u32,
}

impl Controller {
    /// Begins with the stretch that is in force: [`ONE`], or another after a restart.
    pub fn new(floor: Percent, stretch: u32) -> Self {
        let scale = (u64::from(ONE) * u64::from(ONE)) / u64::from(stretch.max(1));
        let floor = floor.of_one();
        let scale = u32::try_from(scale).unwrap_or(ONE).clamp(floor, ONE);
        Self { floor, scale }
    }

    /// One round. `over`: a signal is over its value.
    pub fn step(&mut self, over: bool) {
        let next = if over {
            self.scale / DOWN.1 * DOWN.0
        } else {
            self.scale + UP
        };
        self.scale = next.clamp(self.floor, ONE);
    }

    /// The scale, at most [`ONE`].
    pub fn scale(self) -> u32 {
        self.scale
    }

    /// Returns true if the rate cannot fall further.
    pub fn is_at_floor(self) -> bool {
        self.scale == self.floor
    }

    /// The word for the map at `now` nanoseconds.
    pub fn word(self, now: u64) -> u64 {
        word(stretch_of(self.scale), now + HOLDS)
    }
}

//! The scale of one limit: it falls by a factor while a signal is over its value, and rises by steps otherwise.

use limiter_common::arithmetic::scale::{ONE, word};

use crate::config::adaptive::{Percent, stretch_of};

/// Time between two rounds, in nanoseconds.
pub const ROUND: u64 = 1_000_000_000;
/// Time for which a scale holds without the process, in nanoseconds.
pub const HOLDS: u64 = 5 * ROUND;
/// In a round, the scale falls to this part of itself.
const DOWN: (u32, u32) = (7, 10);
/// In a round, the scale rises by this part of the configured rate.
const UP: u32 = ONE / 20;

/// The scale of a limit, between its floor and [`ONE`].
#[derive(Clone, Copy, Debug)]
pub struct Controller {
    floor: u32,
    scale: u32,
}

impl Controller {
    /// The configured rate.
    pub fn new(floor: Percent) -> Self {
        Self {
            floor: floor.of_one(),
            scale: ONE,
        }
    }

    /// Continues with the stretch that is in force, after a restart.
    pub fn resume(floor: Percent, stretch: u32) -> Self {
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

    /// Whether the rate cannot fall further.
    pub fn is_at_floor(self) -> bool {
        self.scale == self.floor
    }

    /// The word for the map at `now` nanoseconds.
    pub fn word(self, now: u64) -> u64 {
        word(stretch_of(self.scale), now + HOLDS)
    }
}

#[cfg(test)]
mod tests {
    use limiter_common::arithmetic::scale::stretch;
    use proptest::prelude::*;

    use super::*;

    fn percent(number: u32) -> Percent {
        format!("{number}%").parse().unwrap()
    }

    proptest! {
        /// Signals of any kind, restarts included.
        #[test]
        fn scale_stays_within_its_bounds_and_steps(
            floor in 1_u32..=100,
            rounds in prop::collection::vec((any::<bool>(), any::<bool>()), 1..400),
        ) {
            let floor = percent(floor);
            let mut controller = Controller::new(floor);
            for (over, restarts) in rounds {
                let before = controller.scale();
                controller.step(over);
                let after = controller.scale();
                prop_assert!((floor.of_one()..=ONE).contains(&after));
                let least = (before / DOWN.1 * DOWN.0).max(floor.of_one());
                prop_assert_eq!(after, if over { least } else { (before + UP).min(ONE) });
                if restarts {
                    let in_force = stretch(controller.word(0), || HOLDS - 1);
                    controller = Controller::resume(floor, in_force);
                    // The stretch is rounded.
                    prop_assert!(controller.scale().abs_diff(after) <= 1);
                }
            }
            for _ in 0..ONE.div_ceil(UP) {
                controller.step(false);
            }
            prop_assert_eq!(controller.scale(), ONE, "it recovers within 20 quiet rounds");
        }

        /// A host that is overloaded above a part of the rate. After the first fall below it, the scale swings between
        /// seven tenths of that part and a twentieth above it.
        #[test]
        fn swing_around_a_capacity_is_bounded(capacity in 10_u32..95) {
            let capacity = percent(capacity).of_one();
            let mut controller = Controller::new(percent(1));
            let mut has_fallen = false;
            for _ in 0..200 {
                let over = controller.scale() > capacity;
                has_fallen |= !over;
                if has_fallen {
                    let swing = capacity / DOWN.1 * DOWN.0 - DOWN.1..=capacity + UP;
                    prop_assert!(swing.contains(&controller.scale()));
                }
                controller.step(over);
            }
            prop_assert!(has_fallen);
        }
    }

    #[test]
    fn word_ends_after_the_stated_time() {
        let mut controller = Controller::new(percent(50));
        controller.step(true);
        let (now, unit) = (123_456_789_012, 1 << 20);
        let word = controller.word(now);
        let at = |time| stretch(word, || time);
        assert_eq!(at(now), stretch_of(controller.scale()));
        assert_eq!(at(now + HOLDS - 1), stretch_of(controller.scale()));
        assert_eq!(at(now + HOLDS + 2 * unit), ONE);
    }
}

//! The scale of an adaptive limit stays within its bounds, swings within them, and recovers.

use limiter_common::arithmetic::scale::{ONE, stretch};
use limiter_config::adaptive::{Percent, stretch_of};
use limiter_user::adapt::controller::{Controller, DOWN, HOLDS, UP};
use proptest::prelude::*;

fn percent(number: u32) -> Percent {
    format!("{number}%").parse().expect("a percentage")
}

proptest! {
    /// Signals of any kind, restarts included.
    #[test]
    fn scale_stays_within_its_bounds_and_steps(
        floor in 1_u32..=99,
        rounds in prop::collection::vec((any::<bool>(), any::<bool>()), 1..400),
    ) {
        let floor = percent(floor);
        let mut controller = Controller::new(floor, ONE);
        for (over, restarts) in rounds {
            let before = controller.scale();
            controller.step(over);
            let after = controller.scale();
            prop_assert!((floor.of_one()..=ONE).contains(&after));
            let least = (before / DOWN.1 * DOWN.0).max(floor.of_one());
            prop_assert_eq!(after, if over { least } else { (before + UP).min(ONE) });
            if restarts {
                let in_force = stretch(controller.word(0), || HOLDS - 1);
                controller = Controller::new(floor, in_force);
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
        let mut controller = Controller::new(percent(1), ONE);
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
    let mut controller = Controller::new(percent(50), ONE);
    controller.step(true);
    assert_eq!(HOLDS, 5_000_000_000, "as documented");
    let (now, unit) = (123_456_789_012, 1 << 20);
    let word = controller.word(now);
    let stretch_at = |time| stretch(word, || time);
    assert_eq!(stretch_at(now), stretch_of(controller.scale()));
    assert_eq!(stretch_at(now + HOLDS - 1), stretch_of(controller.scale()));
    assert_eq!(stretch_at(now + HOLDS + 2 * unit), ONE);
}

//! A fleet survives faults under load: each host's limits hold, and a source below its rate is not refused.
//!
//! When the fault is over, the fleet's bound holds again.

mod agents;
mod case;
mod changes;
mod pinned;
mod records;
mod refusing;
mod slow;
mod store;

/// Returns from the test if this machine lacks something; otherwise gives a fleet of three with these limits, or a
/// shared one.
macro_rules! fleet {
    () => {
        crate::faults::fleet!(&crate::faults::case::limits())
    };
    ($limits:expr) => {{
        limiter_tests::need_kernel!();
        limiter_tests::need_redis!();
        if !limiter_tests::need::program(module_path!(), "nft") {
            return;
        }
        let fleet = limiter_tests::fleet::Fleet::of(3);
        fleet.attach_all($limits);
        fleet
    }};
}
use fleet;

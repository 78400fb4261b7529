//! What goes wrong in a fleet, under load: each host's own limits hold whatever happens, a source below its rate is
//! refused nothing, and when all is well again the fleet's bound holds again.

mod agents;
mod case;
mod changes;
mod pinned;
mod records;
mod refusing;
mod slow;
mod store;

/// Leaves a test that this machine lacks something for; else a fleet of three with these limits, or a shared one.
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

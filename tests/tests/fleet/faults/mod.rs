//! A fleet survives faults under load: each host's limits hold, and a source below its rate is not refused.
//!
//! The fleet's bound holds again after the fault.

mod agents;
mod case;
mod changes;
mod pinned;
mod refusing;
mod store;

/// A fleet of three with the settings of [`case::limits`], or with others.
macro_rules! fleet {
    () => {
        crate::shared::fleet!(&crate::faults::case::limits())
    };
    ($settings:expr) => {
        crate::shared::fleet!($settings)
    };
}
use fleet;

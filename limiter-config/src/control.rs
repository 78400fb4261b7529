//! `[control]`: the built-in limits on control traffic.

use serde::{Deserialize, Serialize};

use super::{Burst, Rate};

/// Name of the limit on each source of control traffic.
pub const CONTROL_LIMIT: &str = "control";
/// Name of the limit on all control traffic of an interface together.
pub const CONTROL_TOTAL: &str = "control-total";

/// Limits on control traffic that is exempt from all other limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Control {
    /// Packets of one source per period.
    pub rate: Rate,
    /// The most packets of one source at once; `None`: those of two seconds at the rate.
    pub burst: Option<Burst>,
    /// Packets of all sources per period, and at once those of one second at this rate; `None`: no total.
    pub total: Option<Rate>,
}

impl Default for Control {
    /// 100 packets per second and 200 at once are enough for a router. Linux keeps 1,024 neighbours by default
    /// (`gc_thresh3`). With 10,000 packets per second in total, each may ask almost ten times per second, while a
    /// healthy neighbour asks once in several seconds. Made-up neighbours cannot exceed the total.
    fn default() -> Self {
        Self {
            rate: Rate::packets_per_second(100),
            burst: None,
            total: Some(Rate::packets_per_second(10_000)),
        }
    }
}

/// Returns true if this is the name of a built-in limit on control traffic.
pub fn is_control(name: &str) -> bool {
    [CONTROL_LIMIT, CONTROL_TOTAL].contains(&name)
}

//! `[control]`: the built-in limits on control traffic.

use serde::{Deserialize, Serialize};

use super::{Burst, OrNone, Rate};

/// Name of the limit on each source of control traffic.
pub const CONTROL_LIMIT: &str = "control";
/// Name of the limit on all control traffic of an interface together.
pub const CONTROL_TOTAL: &str = "control-total";

crate::keys! {
    /// Limits on control traffic that is exempt from all other limits.
    ///
    /// 100 packets per second and 200 at once are enough for a router. Linux keeps 1,024 neighbours by default
    /// (`gc_thresh3`). With 10,000 packets per second in total, each may ask almost ten times per second, while a
    /// healthy neighbour asks once in several seconds. Made-up neighbours cannot exceed the total.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Control("[control]", "under [control]") {
        /// Rate of control packets from one source: `"100/s"` (default).
        rate: Rate = Rate::packets_per_second(100), shown, r#"a rate as in "100/s""#;
        /// Number of control packets that one source may send at once. Default: two seconds of `rate`, or its period if
        /// that is longer.
        burst: Option<Burst>, r#"packets as in 200 or "2k""#;
        /// Rate of control packets from all sources of the interface together: `"10k/s"` (default), or `"none"` for no
        /// total. The burst is the amount of its period.
        total: Option<Rate> as OrNone<Rate> = Some(Rate::packets_per_second(10_000)), shown,
            r#"a rate as in "10k/s", or "none""#;
    }
}

/// Returns true if this is the name of a built-in limit on control traffic.
pub fn is_control(name: &str) -> bool {
    [CONTROL_LIMIT, CONTROL_TOTAL].contains(&name)
}

//! `[control]`: the built-in limits on control traffic.

use limiter_common::abi::rules::{CONTROL_KINDS, CONTROL_LINK, CONTROL_ROUTING};
use serde::{Deserialize, Serialize};

use super::{Burst, OrNone, Rate};

/// Name of the limit on each source of control traffic of the link.
pub const CONTROL_LIMIT: &str = "control";
/// Name of the limit on each source of VRRP, OSPF and BFD.
pub const CONTROL_ROUTES: &str = "control-routing";
/// Name of the limit on all control traffic of an interface together.
pub const CONTROL_TOTAL: &str = "control-total";

crate::keys! {
    /// Limits on control traffic that is exempt from all other limits.
    ///
    /// 100 packets per second and 200 at once are enough for a router. Linux keeps 1,024 neighbours by default
    /// (`gc_thresh3`). With 10,000 packets per second in total, each may ask almost ten times per second, while a
    /// healthy neighbour asks once in several seconds. Made-up neighbours cannot exceed the total. BFD sends up to 300
    /// packets per second in a session, and a router may have several.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Control("[control]", "under [control]") {
        /// Rate of control packets from one source, without VRRP, OSPF and BFD: `"100/s"` (default).
        rate: Rate = Rate::packets_per_second(100), shown, r#"a rate as in "100/s""#;
        /// Number of control packets that one source may send at once. Default: two seconds of `rate`, or its period if
        /// that is longer.
        burst: Option<Burst>, r#"packets as in 200 or "2k""#;
        /// Rate of VRRP, OSPF and BFD packets from one source, if they are exempt: `"1k/s"` (default). The burst is two
        /// seconds of it, or its period if that is longer.
        #[serde(default = "routing")]
        routing: Rate = routing(), r#"a rate as in "1k/s""#;
        /// Rate of control packets from all sources of the interface together: `"10k/s"` (default), or `"none"` for no
        /// total. The burst is the amount of its period.
        total: Option<Rate> as OrNone<Rate> = Some(Rate::packets_per_second(10_000)), shown,
            r#"a rate as in "10k/s", or "none""#;
    }
}

fn routing() -> Rate {
    Rate::packets_per_second(1_000)
}

/// The kinds of control traffic that the limit of this name is for; 0: it is not built in.
pub fn kinds(name: &str) -> u32 {
    match name {
        CONTROL_LIMIT => CONTROL_LINK,
        CONTROL_ROUTES => CONTROL_ROUTING,
        CONTROL_TOTAL => CONTROL_KINDS,
        _ => 0,
    }
}

/// Returns true if this is the name of a built-in limit on control traffic.
pub fn is_control(name: &str) -> bool {
    kinds(name) != 0
}

//! `doctor`: judges the results of the probe for `attach`. If the kernel does not answer, the finding says so.

mod device;
mod finding;
mod last;
mod machine;
mod mode;
mod own_traffic;

use serde::Serialize;

pub use finding::{Finding, Level, Mode};
use finding::{error, ok, warning};
pub use last::last;
use limiter_config::{Limit, Settings, Unit, names::direction_of};
use limiter_kernel::{
    Error,
    probe::{Device, Machine},
};
pub use own_traffic::{note, own_traffic};

/// The output of `doctor --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Diagnosis {
    /// Name of the interface.
    pub interface: String,
    /// The findings: one for each check, always in the same order.
    pub findings: Vec<Finding>,
    /// The mode that `attach --mode auto` is expected to use, or uses already.
    pub mode: Mode,
}

/// Judges the room that each limit in force has in the table: the effect of a flood of new sources.
pub fn room(settings: &Settings, frame_max: u64) -> Finding {
    let warnings = settings.table_warnings(frame_max).unwrap_or_default();
    let finding = if warnings.is_empty() {
        ok("a flood of new sources fills the table for no limit")
    } else {
        warning(warnings.join("; "), settings.table_advice(frame_max, None))
    };
    finding.of("room")
}

/// Judges the bursts of bit rates in force on the interface called `name`, if there are any. Frames had up to `before` bytes
/// when the limits were put in force, and have up to `frame_max` now.
pub fn bursts(name: &str, settings: &Settings, [before, frame_max]: [u64; 2]) -> Option<Finding> {
    let in_bits = settings.limits.iter();
    let mut in_bits = in_bits
        .filter(|limit| limit.rate.unit == Unit::Bytes)
        .peekable();
    in_bits.peek()?;
    let problem = |limit: &Limit| {
        let never = limit.never_admits(before, frame_max);
        let never = never.map(|why| format!("limit '{}': {why}", limit.name));
        never.or_else(|| limit.slows_tcp())
    };
    let problems: Vec<_> = in_bits.filter_map(problem).collect();
    let finding = if problems.is_empty() {
        ok("each burst in bytes holds the longest frame")
    } else {
        let advice =
            format!("`limiter set {name} --burst`, or in the file, and `limiter reload {name}`");
        warning(problems.join("; "), &advice)
    };
    Some(finding.of("bursts"))
}

/// Judges the proofs of the limits in force, if one has any, with this driver. `unanswered` are packets that get no
/// answer, with the reason and, after a colon, what to do.
pub fn proof(
    settings: &Settings,
    has_cookies: Option<bool>,
    driver: Option<&str>,
    unanswered: &[String],
) -> Option<Finding> {
    let uses_cookies = settings.limits.iter().any(|limit| limit.proof.syn_cookie);
    let finding = if uses_cookies && has_cookies == Some(false) {
        warning(
            "SYNs are answered only while a listener's queue is full",
            "`sysctl net.ipv4.tcp_syncookies=2`",
        )
    } else if let Some((found, advice)) = unanswered
        .first()
        .and_then(|problem| problem.rsplit_once(": "))
    {
        warning(found, advice)
    } else if driver == Some("veth") {
        warning(
            "a veth sends no answers unless its other end runs an XDP program in native mode",
            "attach one there, or use --mode generic",
        )
    } else {
        ok("packets of new sources get answers")
    };
    settings.has_proof().then(|| finding.of("proof"))
}

/// Judges `established` of the limits in force on a host that forwards connections.
pub fn forwarding(settings: &Settings, device: &Device) -> Option<Finding> {
    if !settings.exempt.established || !device.translates {
        return None;
    }
    let finding = warning(
        "this host forwards connections with translated addresses (NAT), such as those of containers, and `established` does not know these: limits apply to all their packets",
        "see docs/containers.md, connections of containers",
    );
    Some(finding.of("forwarding"))
}

/// Judges bounds on open connections of the limits in force on a host that forwards connections.
pub fn forwarded(settings: &Settings, device: &Device) -> Option<Finding> {
    if !settings.bounds_connections() || !device.forwards {
        return None;
    }
    let finding = warning(
        "this host forwards packets of the interface, and `connections` counts only connections to the host's own sockets: it does not bound those that pass through, also to containers",
        "attach in the container or on the host that has the sockets (docs/containers.md)",
    );
    Some(finding.of("connections"))
}

/// Judges limits in force that use VLANs, in this mode.
pub fn vlan(settings: &Settings, device: &Device, mode: Mode) -> Option<Finding> {
    let uses_vlan = |limit: &Limit| {
        limit.key.by_vlan || limit.matches.all().any(|matches| !matches.vlan.is_empty())
    };
    if !settings.limits.iter().any(uses_vlan) {
        return None;
    }
    let name = direction_of(&device.interface.name).0;
    let finding = match (mode, device.strips_vlan) {
        (Mode::Tc, _) => ok("limits see the tag, also if the card has taken it off the frame"),
        (_, Some(false)) => ok("the tag is in the frame, and limits see it"),
        (_, Some(true)) => warning(
            "the interface takes VLAN tags off frames, and limits on VLANs see such packets as untagged",
            format!("`ethtool -K {name} rxvlan off`, or mode = \"tc\""),
        ),
        (_, None) => warning(
            "the driver does not say whether it takes VLAN tags off frames: limits on VLANs would see such packets as untagged",
            format!("`ethtool -k {name}` (rx-vlan-offload), or mode = \"tc\""),
        ),
    };
    Some(finding.of("vlan"))
}

impl Diagnosis {
    /// The checks that found a problem.
    pub fn problems(&self) -> Vec<&Finding> {
        let problem = |finding: &&Finding| finding.level == Level::Problem;
        self.findings.iter().filter(problem).collect()
    }
}

/// Judges the results of the probe of the interface called `name`.
pub fn diagnose(name: &str, machine: &Machine, device: &Result<Device, Error>) -> Diagnosis {
    let mut findings = vec![
        machine::kernel(machine).of("kernel"),
        machine::privileges(machine).of("privileges"),
        machine::bpffs(machine).of("bpffs"),
    ];
    let mut mode = Mode::Unknown;
    match device {
        Err(why) => findings.push(error(why).of("interface")),
        Ok(device) => {
            mode = mode::expected(device);
            findings.extend([
                device::interface(device).of("interface"),
                device::frames(device, machine).of("frames"),
                device::mtu(device, machine, mode).of("mtu"),
                device::driver(device, mode).of("driver"),
                device::queues(device, machine).of("queues"),
                mode::lro(device, mode).of("lro"),
                mode::gro(device, mode).of("gro"),
                mode::program(device).of("program"),
            ]);
            findings.extend(device::qdisc(device, machine).map(|found| found.of("qdisc")));
        }
    }
    Diagnosis {
        interface: name.to_owned(),
        findings,
        mode,
    }
}

#[cfg(test)]
mod tests;

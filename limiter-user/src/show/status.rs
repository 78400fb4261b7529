//! The output of `status`, and of a successful `attach`.

use limiter_common::policy::verdict::Reason;
use limiter_fleet::status::Fleet;

use crate::{
    observe::{Interface, Limit, Status, reasons::ByReason},
    show::units::{bytes, counted, grouped},
};

/// The state of all attachments.
pub fn status(status: &Status) -> String {
    if status.interfaces.is_empty() {
        return "limiter is not attached to any interface\n".to_owned();
    }
    let interfaces: Vec<_> = status.interfaces.iter().map(interface).collect();
    interfaces.join("\n")
}

/// A line with its label; further lines of a limit or a fleet have none.
fn line(label: &str, text: &str) -> String {
    format!("  {label:<8} {text}\n")
}

fn limit_line(limit: &Limit) -> String {
    let mut text = format!(
        "{}: {}, burst {}, per {}",
        limit.name,
        limit.rate_in_force(),
        limit.burst,
        limit.key
    );
    if let Some(cost) = limit.cost {
        text += &format!(", cost {cost}");
    }
    if limit.algorithm != "token-bucket" {
        text += &format!(", {}", limit.algorithm);
    }
    if let (Some(hold), Some(held)) = (&limit.hold, limit.held_sources) {
        text += &format!(", holds for {hold}: {} held", grouped(held));
    }
    if let Some(adaptive) = &limit.adaptive {
        text += &format!(", down to {adaptive}");
        if limit.adapted == Some(false) {
            text += ": limiter adapt does not run";
        }
    }
    if let Some(proof) = &limit.proof {
        text += &format!(", proof {proof}");
    }
    if limit.shadow {
        text += ", shadow: drops nothing";
    }
    text
}

/// Match and counters of a limit. A single limit that matches every packet has no such lines: the interface's sums
/// show them.
fn own_lines(limit: &Limit, is_only: bool) -> String {
    let mut text = String::new();
    if let Some(matches) = &limit.r#match {
        text += &line("", &format!("match {matches}"));
    } else if is_only {
        return text;
    }
    let sums = format!(
        "{} passed, {} dropped{}",
        grouped(limit.passed.packets),
        grouped(limit.dropped.packets),
        by_shadow(limit.would_drop.packets)
    );
    text + &line("", &sums)
}

fn by_shadow(would_drop: u64) -> String {
    if would_drop > 0 {
        format!(" ({} passed only because of shadow)", grouped(would_drop))
    } else {
        String::new()
    }
}

fn interface(interface: &Interface) -> String {
    let mut text = format!(
        "{}: {} mode, program {}, since {}{}\n{}",
        interface.name,
        interface.mode,
        interface.program_id,
        interface.attached_at,
        if interface.shadow {
            ", shadow: nothing is dropped"
        } else {
            ""
        },
        notes(interface)
    );
    for limit in &interface.limits {
        text += &line("limit", &limit_line(limit));
        text += &own_lines(limit, interface.limits.len() == 1);
    }
    for list in interface.lists.iter().filter(|list| list.prefixes > 0) {
        let prefixes = counted(list.prefixes, "prefix");
        let packets = counted(list.hits.packets, "packet");
        text += &line("list", &format!("{}: {prefixes}, {packets}", list.name));
    }
    text += &interface
        .fleet
        .as_ref()
        .map_or_else(String::new, fleet_lines);
    if !interface.exempt.is_empty() {
        text += &line("exempt", &interface.exempt.join(", "));
    }
    let verdicts = &interface.verdicts;
    let sums = format!(
        "{} seen, {} passed, {} dropped{}",
        grouped(verdicts.seen.packets),
        grouped(verdicts.passed.packets),
        grouped(verdicts.dropped.packets),
        by_shadow(verdicts.would_drop.packets)
    );
    text += &line("packets", &sums);
    text += &reasons_line("drops", &interface.drops);
    text += &reasons_line("passes", &interface.passes);
    let sources = &interface.sources;
    // Some sources take two entries.
    let entries = if sources.entries == sources.tracked {
        String::new()
    } else {
        format!(" in {} entries", grouped(sources.entries))
    };
    let room = format!(
        "{}{entries} of {}, {} of kernel memory",
        grouped(sources.tracked),
        grouped(sources.capacity),
        bytes(sources.memory_bytes)
    );
    text += &line("sources", &room);
    if sources.came_again > 0 {
        let again = format!(
            "{} of {} that came again",
            grouped(sources.second_chances),
            counted(sources.came_again, "packet")
        );
        text += &line("second chance", &again);
    }
    if sources.proven > 0 {
        let proven = format!(
            "{} let in by a SYN cookie",
            counted(sources.proven, "source")
        );
        text += &line("proof", &proven);
    }
    text + &new_sources_note(interface)
}

/// The fleet: its hosts, and by how much it may exceed its limits.
fn fleet_lines(fleet: &Fleet) -> String {
    let hosts = match fleet.staleness_seconds {
        Some(seconds) => format!(
            "{}; data of the other hosts is at most {seconds:.1} s old",
            counted(fleet.hosts.into(), "host")
        ),
        None => "the limits apply to this host alone".to_owned(),
    };
    let mut text = line("fleet", &format!("{}: {hosts}", fleet.name));
    let mut add = |note: &str| text += &line("", note);
    fleet.error.iter().for_each(|error| add(error));
    if fleet.limits.is_empty() {
        add("no limit here is shared: scope = \"fleet\" in a limit shares it");
    }
    for limit in &fleet.limits {
        let name = &limit.name;
        if let Some(packets) = limit.overshoot_packets {
            let packets = counted(packets, "packet");
            add(&format!(
                "{name}: all hosts together pass at most {packets} of one source beyond it"
            ));
        }
        if !limit.conflicts.is_empty() {
            let others = limit.conflicts.join(", or ");
            add(&format!(
                "{name}: other hosts have {others}; make it equal on all hosts"
            ));
        }
    }
    if !fleet.missing_limits.is_empty() {
        let missing = fleet.missing_limits.join(", ");
        add(&format!(
            "missing here, but shared by other hosts: {missing}"
        ));
    }
    text
}

/// Explains why new sources were refused, with advice in case they are real.
fn new_sources_note(interface: &Interface) -> String {
    if interface.drops.of(Reason::NewSource).packets == 0 {
        return String::new();
    }
    let name = &interface.name;
    let larger = format!(
        "`limiter detach {name}`, then attach with a --max-sources above {}",
        interface.sources.capacity
    );
    match &interface.new_sources {
        Some(rate) => format!(
            "  New sources were refused: they came faster than {rate}, or the table had no room. In a flood of spoofed sources this is intended. If they are real: `limiter set {name} --new-sources RATE` with a higher rate, or {larger}.\n"
        ),
        None => format!(
            "  New sources were refused, because the table had no room for them. If they are real: {larger}.\n"
        ),
    }
}

/// The reasons that have packets; empty if none has.
fn reasons_line<const DROPS: bool>(label: &str, reasons: &ByReason<DROPS>) -> String {
    let counted = reasons.iter().filter(|(_, count)| count.packets > 0);
    let texts: Vec<_> = counted
        .map(|(reason, count)| format!("{} {}", grouped(count.packets), reason.text()))
        .collect();
    if texts.is_empty() {
        return String::new();
    }
    line(label, &texts.join(", "))
}

fn notes(interface: &Interface) -> String {
    trial_note(interface) + &chain_note(interface) + &mode_notes(interface)
}

/// Notes that another program decides too.
fn chain_note(interface: &Interface) -> String {
    if !interface.chained {
        return String::new();
    }
    let Some(next) = &interface.next_program else {
        return "  In front of another XDP program, which gets the packets that pass here. Its pin was removed, so detach cannot put it back.\n".to_owned();
    };
    let name = next.name.as_deref().unwrap_or("without a name");
    format!(
        "  In front of program {} ({name}), which gets the packets that pass here. `limiter detach {}` puts it back.\n",
        next.program_id, interface.name
    )
}

/// Notes when a trial ends and how to keep it, or that it has ended.
fn trial_note(interface: &Interface) -> String {
    let name = &interface.name;
    match (&interface.try_until, &interface.trial_ended) {
        (Some(until), _) => {
            format!("  ON TRIAL: undone at {until} unless you run `limiter keep {name}`.\n")
        }
        (None, Some(ended)) => {
            format!("  A trial ended at {ended}: the settings before it are in force again.\n")
        }
        (None, None) => String::new(),
    }
}

fn mode_notes(interface: &Interface) -> String {
    let mut text = String::new();
    if let Some(why) = &interface.fallback {
        text.push_str(&format!(
            "  NOT native: {why}; generic mode is several times slower.\n"
        ));
    }
    if interface.mode == "generic" && interface.loopback {
        text.push_str(
            "  Loopback: data that a program sends at once arrives as one packet of up to 64 KiB, and counts once.\n",
        );
    } else if interface.mode == "generic" {
        text.push_str(&format!(
            "  Generic mode sees packets after receive offload has merged them: to count each packet, run `ethtool -K {} gro off`.\n",
            interface.name
        ));
    }
    if !interface.frags && interface.chained {
        text.push_str("  No jumbo frames (MTU above about 3500): the program behind limiter, or this kernel, does not support them.\n");
    } else if !interface.frags {
        text.push_str("  No jumbo frames (MTU above about 3500): this kernel does not support them (Linux 5.18 does).\n");
    }
    text
}

/// Notes that a fleet needs an agent, if none runs.
fn agent_note(interface: &Interface) -> String {
    let alone = interface.fleet.as_ref().filter(|fleet| !fleet.agent);
    alone.map_or_else(String::new, |fleet| {
        format!(
            "  Fleet '{}' shares nothing with this host until an agent runs here: run `limiter agent --store URL`.\n",
            fleet.name
        )
    })
}

/// The output for an interface that has just been attached.
pub fn attached(interface: &Interface) -> String {
    // At most this many fit into a line.
    const SHOWN: usize = 3;
    let limits = interface.limits.iter().take(SHOWN);
    let mut limits: Vec<_> = limits.map(limit_line).collect();
    if interface.limits.len() > SHOWN {
        let more = interface.limits.len() - SHOWN;
        limits.push(counted(more as u64, "more limit"));
    }
    let shadow = if interface.shadow {
        "; shadow: nothing is dropped"
    } else {
        ""
    };
    format!(
        "{}: attached in {} mode; {}{shadow}\n{}{}  {} sources at most, {} bytes each; {} of kernel memory in all. See `limiter status {}`; undo with `limiter detach {}`.\n",
        interface.name,
        interface.mode,
        limits.join("; "),
        notes(interface),
        agent_note(interface),
        grouped(interface.sources.capacity),
        interface.sources.source_bytes,
        bytes(interface.sources.memory_bytes),
        interface.name,
        interface.name,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use limiter_fleet::status::SharedLimit;

    fn fleet(hosts: u32, staleness_seconds: Option<f64>) -> Fleet {
        let limit = |name: &str, overshoot_packets| SharedLimit {
            name: name.to_owned(),
            overshoot_packets,
            conflicts: Vec::new(),
        };
        Fleet {
            name: "edge".to_owned(),
            agent: true,
            store: Some("store:6379".to_owned()),
            error: None,
            hosts,
            staleness_seconds,
            sources: 7,
            limits: vec![
                limit("http", staleness_seconds.map(|_| 1_250)),
                limit("dns", staleness_seconds.map(|_| 1)),
            ],
            missing_limits: Vec::new(),
        }
    }

    #[test]
    fn fleet_lines_show_overshoot_conflicts_and_errors() {
        let mut shared = fleet(3, Some(0.44));
        shared.limits[1].conflicts = vec!["2/s, burst 2".to_owned(), "3/s, burst 2".to_owned()];
        shared.missing_limits = vec!["htp".to_owned(), "ssh".to_owned()];
        shared.error = Some("the store does not answer".to_owned());
        let indent = " ".repeat(11);
        assert_eq!(
            fleet_lines(&shared),
            format!(
                "  fleet    edge: 3 hosts; data of the other hosts is at most 0.4 s old\n\
                 {indent}the store does not answer\n\
                 {indent}http: all hosts together pass at most 1,250 packets of one source beyond it\n\
                 {indent}dns: all hosts together pass at most 1 packet of one source beyond it\n\
                 {indent}dns: other hosts have 2/s, burst 2, or 3/s, burst 2; make it equal on all hosts\n\
                 {indent}missing here, but shared by other hosts: htp, ssh\n"
            )
        );
        assert_eq!((shared.conflicts(), shared.is_shared()), (3, false));
        let sound = fleet(2, Some(0.2));
        assert_eq!((sound.conflicts(), sound.is_shared()), (0, true));
    }

    #[test]
    fn fleet_without_shared_limits_or_an_agent_is_shown() {
        let mut alone = fleet(1, None);
        alone.agent = false;
        let line = "  fleet    edge: the limits apply to this host alone\n";
        assert_eq!(fleet_lines(&alone), line);
        assert!(!alone.is_shared());
        alone.limits.clear();
        let note = "no limit here is shared: scope = \"fleet\" in a limit shares it";
        assert_eq!(fleet_lines(&alone), format!("{line}           {note}\n"));
    }
}

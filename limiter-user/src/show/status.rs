//! The output of `status`, which `attach` prints too.

use std::fmt::Display;

use limiter_common::policy::verdict::Reason;
use limiter_config::Settings;
use limiter_fleet::status::Fleet;

use crate::{
    observe::{Count, Feed, Interface, Limit, Status, reasons::ByReason},
    show::units::{below, bytes, counted, grouped},
};

/// The state of all attachments.
pub fn status(status: &Status) -> String {
    if status.interfaces.is_empty() {
        return "limiter is not attached to any interface\n".to_owned();
    }
    let interfaces: Vec<_> = status.interfaces.iter().map(interface).collect();
    interfaces.join("\n") + &status.feeds.iter().map(feed).collect::<String>()
}

fn feed(feed: &Feed) -> String {
    let state = &feed.state;
    let wanted = counted(state.wanted, "ban");
    let works = match (&state.error, feed.running) {
        (_, false) => "does not run: its bans end".to_owned(),
        (Some(error), _) => format!("fails, and its bans end: {error}"),
        (None, _) => format!("{wanted} from {}", state.source),
    };
    let mut text = format!("\nfeed {}: {works}\n", feed.name);
    for left_out in &state.left_out {
        text += &format!("  {}\n", left_out.text());
    }
    if state.held_back > 0 {
        let bans = counted(state.held_back, "ban");
        text += &format!("  {bans} held back: CrowdSec's last full answer lacked them\n");
    }
    text
}

/// A line with its label; further lines of a limit or a fleet have none.
fn line(label: &str, text: &str) -> String {
    format!("  {label:<8} {text}\n")
}

/// A line about each limit of a file, as `status` will show it on an interface with frames of up to `frame_max` bytes.
pub fn configured(settings: &Settings, frame_max: u64) -> String {
    let shown = |limit: &limiter_config::Limit| {
        // The file was checked.
        let burst = limit.burst(frame_max).map(|burst| burst.to_string());
        let burst = burst.unwrap_or_default();
        line("limit", &terms(&limit.name, limit.rate, &burst, limit.key))
    };
    settings.limits.iter().map(shown).collect()
}

fn terms(name: &str, rate: impl Display, burst: &str, key: impl Display) -> String {
    format!("{name}: {rate}, burst {burst}, per {key}")
}

fn limit_line(limit: &Limit) -> String {
    let (name, burst, key) = (&limit.name, &limit.burst, &limit.key);
    let rate = limit.rate_in_force();
    let held = limit.hold.as_ref().zip(limit.held_sources);
    let asleep = match limit.adapted {
        Some(false) => ": limiter adapt does not run",
        _ => "",
    };
    let parts = [
        Some(terms(name, rate, burst, key)),
        limit.cost.map(|cost| format!("cost {cost}")),
        Some(limit.algorithm.to_string()).filter(|name| name != "token-bucket"),
        held.map(|(hold, held)| format!("holds for {hold}: {} held", grouped(held))),
        (limit.max_delay.as_ref()).map(|time| format!("delays for {time} at most")),
        (limit.adaptive.as_ref()).map(|adaptive| format!("down to {adaptive}{asleep}")),
        (limit.proof.as_ref()).map(|proof| format!("proof {proof}")),
        (limit.shadow).then(|| "shadow: drops nothing".to_owned()),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Match and counters of a limit. A single limit that matches every packet has no such lines: the interface's sums
/// show them.
fn own_lines(limit: &Limit, is_only: bool) -> String {
    let mut text = String::new();
    if let Some(why) = &limit.never_admits {
        text += &line("", &format!("LONG FRAMES NEVER PASS: {why}"));
    }
    if let Some(matches) = &limit.r#match {
        text += &line("", &format!("match {matches}"));
    } else if is_only {
        return text;
    }
    text + &line("", &sums(limit.passed, limit.dropped, limit.would_drop))
}

/// The sums of packets.
fn sums(passed: Count, dropped: Count, would_drop: Count) -> String {
    let [passed, dropped] = [passed, dropped].map(|count| grouped(count.packets));
    let by_shadow = match would_drop.packets {
        0 => String::new(),
        packets => format!(" ({} passed only because of shadow)", grouped(packets)),
    };
    format!("{passed} passed, {dropped} dropped{by_shadow}")
}

/// The state of one attachment.
pub fn interface(interface: &Interface) -> String {
    let (verdicts, sources) = (&interface.verdicts, &interface.sources);
    let (name, mode, since) = (&interface.name, &interface.mode, &interface.attached_at);
    let shadow = interface.shadow.then_some(", shadow: nothing is dropped");
    let mut text = format!(
        "{name}: {mode} mode, program {}, since {since}{}\n{}",
        interface.program_id,
        shadow.unwrap_or_default(),
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
    let bans = &interface.bans;
    if !bans.by_origin.is_empty() {
        let by_origin = bans.by_origin.iter();
        let origins: Vec<_> = by_origin
            .map(|(origin, count)| format!("{} by {origin}", grouped(*count)))
            .collect();
        let room = grouped(bans.capacity);
        text += &line("bans", &format!("{} (room for {room})", origins.join(", ")));
    }
    let fleet = interface.fleet.as_ref().map(fleet_lines);
    text += &fleet.unwrap_or_default();
    if !interface.exempt.is_empty() {
        text += &line("exempt", &interface.exempt.join(", "));
    }
    let seen = grouped(verdicts.seen.packets);
    let sums = sums(verdicts.passed, verdicts.dropped, verdicts.would_drop);
    text += &line("packets", &format!("{seen} seen, {sums}"));
    text += &reasons_line("drops", &interface.drops);
    text += &reasons_line("passes", &interface.passes);
    let delays = &interface.delays;
    if delays.packets > 0 {
        let packets = counted(delays.packets, "packet");
        let mean = 1e3 * delays.seconds / delays.packets as f64;
        let most = below(delays.most());
        let times = format!("{packets}, {mean:.1} ms on average{most}");
        text += &line("delayed", &times);
    }
    // Some sources take two entries.
    let entries = match sources.entries {
        entries if entries == sources.tracked => String::new(),
        entries => format!(" in {} entries", grouped(entries)),
    };
    let [tracked, capacity] = [sources.tracked, sources.capacity].map(grouped);
    let memory = bytes(sources.memory_bytes);
    let room = format!("{tracked}{entries} of {capacity}, {memory} of kernel memory");
    text += &line("sources", &room);
    if sources.came_again > 0 {
        let admitted = grouped(sources.second_chances);
        let packets = counted(sources.came_again, "packet");
        let again = format!("{admitted} of {packets} that came again");
        text += &line("second chance", &again);
    }
    if sources.proven > 0 {
        let proven = counted(sources.proven, "source");
        text += &line("proof", &format!("{proven} let in by a SYN cookie"));
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
    fleet.left_out.iter().for_each(|line| add(line));
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
    let (name, room) = (&interface.name, interface.sources.capacity);
    let rate = interface.new_sources.as_deref().unwrap_or("none");
    format!(
        "  New sources were refused: they came faster than {rate} (`--new-sources`), or the table had no room. In a flood of spoofed sources this is intended. If they are real: `limiter set {name} --new-sources RATE` with a higher rate, or `limiter detach {name}`, then attach with a --max-sources above {room}.\n"
    )
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

/// Notes about a trial, another program that decides too, and the mode.
fn notes(interface: &Interface) -> String {
    let Interface { name, chained, .. } = interface;
    let trial = match (&interface.try_until, &interface.trial_ended) {
        (Some(until), _) => Some(format!(
            "ON TRIAL: undone at {until} unless you run `limiter keep {name}`."
        )),
        (None, ended) => ended.as_ref().map(|ended| {
            format!("A trial ended at {ended}: the settings before it are in force again.")
        }),
    };
    let log = interface.log.as_ref().map(|log| {
        format!(
            "LOGGING at level {} until {}, which costs time for each packet; `limiter keep {name} --revert` ends it now.",
            log.level, log.until
        )
    });
    let fallback = (interface.fallback.as_ref())
        .map(|why| format!("NOT native: {why}; generic mode is several times slower."));
    let merged = match interface.mode.as_str() {
        "tc" => Some("Packets that offload has merged count as the packets they were, and pass or are dropped together.".to_owned()),
        _ if interface.tap => Some("A virtual machine may send merged packets, which count once: to count each packet, attach with --hook tc (Linux 6.6).".to_owned()),
        "generic" if interface.loopback => Some("Loopback: data that a program sends at once arrives as one packet of up to 64 KiB, and counts once.".to_owned()),
        "generic" if interface.merges => Some(format!("Generic mode sees packets after receive offload has merged them: to count each packet, run `ethtool -K {name} gro off`.")),
        _ => None,
    };
    let jumbo = (!interface.frags).then(|| {
        let why = match chained {
            true => "the program behind limiter, or this kernel, does not support them.",
            false => "this kernel does not support them (Linux 5.18 does).",
        };
        format!("No jumbo frames (MTU above about 3500): {why}")
    });
    let chain = chained.then(|| chain_note(interface));
    let notes = [trial, log, chain, fallback, merged, jumbo].into_iter();
    let notes = notes.flatten();
    notes.map(|note| format!("  {note}\n")).collect()
}

fn chain_note(interface: &Interface) -> String {
    let Some(next) = &interface.next_program else {
        return "In front of another XDP program, which gets the packets that pass here. Its pin was removed, so detach cannot put it back.".to_owned();
    };
    let name = next.name.as_deref().unwrap_or("without a name");
    format!(
        "In front of program {} ({name}), which gets the packets that pass here. `limiter detach {}` puts it back.",
        next.program_id, interface.name
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
            left_out: Vec::new(),
        }
    }

    #[test]
    fn fleet_lines_show_overshoot_conflicts_and_errors() {
        let mut shared = fleet(3, Some(0.44));
        shared.limits[1].conflicts = vec!["2/s, burst 2".to_owned(), "3/s, burst 2".to_owned()];
        shared.missing_limits = vec!["htp".to_owned(), "ssh".to_owned()];
        shared.error = Some("the store does not answer".to_owned());
        shared.left_out = vec!["1 ban of the fleet is not in force here".to_owned()];
        let indent = " ".repeat(11);
        assert_eq!(
            fleet_lines(&shared),
            format!(
                "  fleet    edge: 3 hosts; data of the other hosts is at most 0.4 s old\n\
                 {indent}the store does not answer\n\
                 {indent}http: all hosts together pass at most 1,250 packets of one source beyond it\n\
                 {indent}dns: all hosts together pass at most 1 packet of one source beyond it\n\
                 {indent}dns: other hosts have 2/s, burst 2, or 3/s, burst 2; make it equal on all hosts\n\
                 {indent}1 ban of the fleet is not in force here\n\
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

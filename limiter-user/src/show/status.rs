//! The output of `status`, which `attach` prints too.

use std::time::SystemTime;

use limiter_common::policy::verdict::Reason;
use limiter_config::Settings;
use limiter_fleet::status::Fleet;

use crate::{
    observe::{Count, Feed, Interface, PerSecond, Rates, Status, Verdicts, reasons::ByReason},
    show::{
        limits,
        page::Page,
        units::{ago, ahead, below, bits, bytes, counted, grouped, seconds, whole_packets},
    },
};

/// The state without any attachment.
pub const NONE: &str = "limiter is not attached to any interface\n";

/// The state of all attachments. `width`: columns of the terminal; none: lines are not wrapped.
pub fn status(status: &Status, width: Option<usize>) -> String {
    if status.interfaces.is_empty() {
        return NONE.to_owned();
    }
    let interfaces = status.interfaces.iter();
    let interfaces: Vec<_> = interfaces.map(|shown| interface(shown, width)).collect();
    let mut feeds = Page::new(width);
    for shown in &status.feeds {
        feed(&mut feeds, shown);
    }
    interfaces.join("\n") + &feeds.finish()
}

fn feed(page: &mut Page, feed: &Feed) {
    let state = &feed.state;
    let wanted = counted(state.wanted, "ban");
    let works = match (&state.error, feed.running) {
        (_, false) => "does not run: its bans end".to_owned(),
        (Some(error), _) => format!("fails, and its bans end: {error}"),
        (None, _) => format!("{wanted} from {}", state.source),
    };
    page.add("\n");
    page.wrapped(&format!("feed {}: {works}", feed.name), 2);
    for left_out in &state.left_out {
        page.note(&left_out.text());
    }
    if state.held_back > 0 {
        let bans = counted(state.held_back, "ban");
        page.note(&format!(
            "{bans} held back: CrowdSec's last full answer lacked them"
        ));
    }
}

/// A line about each limit of a file, as `status` will show it on an interface with frames of up to `frame_max` bytes.
pub fn configured(settings: &Settings, frame_max: u64) -> String {
    let mut page = Page::new(None);
    limits::add_configured(&mut page, settings, frame_max);
    page.finish()
}

/// The sums of packets or bytes, each formatted by `figure`.
fn sums(verdicts: &Verdicts, figure: impl Fn(Count) -> String) -> String {
    let [seen, passed, dropped] = [verdicts.seen, verdicts.passed, verdicts.dropped].map(figure);
    format!("{seen} seen, {passed} passed, {dropped} dropped")
}

/// The rates of packets and bits.
fn rates(rates: &Rates) -> String {
    let rate = |rate: PerSecond, verdict: &str| {
        let packets = whole_packets(rate.packets);
        format!("{packets}/s {verdict} ({})", bits(rate.bits))
    };
    let by_shadow = match rates.would_drop {
        PerSecond { packets: 0.0, .. } => String::new(),
        would_drop => format!(", {}", rate(would_drop, "passed only because of shadow")),
    };
    format!(
        "{}, {}{by_shadow}, over {}",
        rate(rates.passed, "passed"),
        rate(rates.dropped, "dropped"),
        seconds(rates.interval_seconds)
    )
}

/// The state of one attachment.
pub fn interface(interface: &Interface, width: Option<usize>) -> String {
    let (name, mode, now) = (&interface.name, &interface.mode, SystemTime::now());
    let shadow = match interface.shadow {
        true => ", SHADOW: nothing is dropped",
        false => "",
    };
    let mut page = Page::new(width);
    let attached = ago(&interface.attached_at, now);
    let program = interface.program_id;
    page.wrapped(
        &format!("{name}: {mode} mode{shadow}, attached {attached}, program {program}"),
        2,
    );
    for note in notes(interface, now) {
        page.note(&note);
    }
    traffic(&mut page, interface);
    rules(&mut page, interface);
    limits::add(&mut page, &interface.limits);
    page.finish()
}

/// The packets, their reasons, and the table of sources.
fn traffic(page: &mut Page, interface: &Interface) {
    let verdicts = &interface.verdicts;
    let by_shadow = match verdicts.would_drop.packets {
        0 => String::new(),
        packets => format!(" ({} passed only because of shadow)", grouped(packets)),
    };
    let packets = sums(verdicts, |count| grouped(count.packets));
    page.line("packets", &(packets + &by_shadow));
    page.line("bytes", &sums(verdicts, |count| bytes(count.bytes)));
    if let Some(measured) = &interface.rates {
        page.line("now", &rates(measured));
    }
    reasons_line(page, "drops", &interface.drops);
    reasons_line(page, "passes", &interface.passes);
    let delays = &interface.delays;
    if delays.packets > 0 {
        let packets = counted(delays.packets, "packet");
        let mean = 1e3 * delays.seconds / delays.packets as f64;
        let most = below(delays.most());
        page.line(
            "delayed",
            &format!("{packets}, {mean:.1} ms on average{most}"),
        );
    }
    let sources = &interface.sources;
    // Some sources take two entries.
    let entries = match sources.entries {
        entries if entries == sources.tracked => String::new(),
        entries => format!(" in {} entries", grouped(entries)),
    };
    let [tracked, capacity] = [sources.tracked, sources.capacity].map(grouped);
    let memory = bytes(sources.memory_bytes);
    page.line(
        "sources",
        &format!("{tracked}{entries} of {capacity}, {memory} of kernel memory"),
    );
    if sources.came_again > 0 {
        let packets = counted(sources.came_again, "packet");
        let admitted = grouped(sources.second_chances);
        page.line(
            "retries",
            &format!("{packets} of new sources refused before; {admitted} of these were let in"),
        );
    }
    if sources.proven > 0 {
        let proven = counted(sources.proven, "source");
        let proof = "let in by an open connection or a proof";
        page.line("proof", &format!("{proven} {proof}"));
    }
    if interface.drops.of(Reason::NewSource).packets > 0 {
        page.note(&new_sources_note(interface));
    }
}

/// Lists, bans, the fleet and exemptions.
fn rules(page: &mut Page, interface: &Interface) {
    for list in interface.lists.iter().filter(|list| list.prefixes > 0) {
        let prefixes = counted(list.prefixes, "prefix");
        let packets = counted(list.hits.packets, "packet");
        page.line("list", &format!("{}: {prefixes}, {packets}", list.name));
    }
    let bans = &interface.bans;
    if !bans.by_origin.is_empty() {
        let by_origin = bans.by_origin.iter();
        let origins: Vec<_> = by_origin
            .map(|(origin, count)| format!("{} by {origin}", grouped(*count)))
            .collect();
        let room = grouped(bans.capacity);
        page.line("bans", &format!("{} (room for {room})", origins.join(", ")));
    }
    if let Some(fleet) = &interface.fleet {
        fleet_lines(page, fleet);
    }
    if !interface.exempt.is_empty() {
        page.line("exempt", &interface.exempt.join(", "));
    }
}

/// The fleet: its hosts, and by how much it may exceed its limits.
fn fleet_lines(page: &mut Page, fleet: &Fleet) {
    let hosts = match fleet.staleness_seconds {
        Some(seconds) => format!(
            "{}; data of the other hosts is at most {seconds:.1} s old",
            counted(fleet.hosts.into(), "host")
        ),
        None => "the limits apply to this host alone".to_owned(),
    };
    page.line("fleet", &format!("{}: {hosts}", fleet.name));
    let mut add = |note: &str| page.line("", note);
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
}

/// Explains why new sources were refused, with advice in case they are real.
fn new_sources_note(interface: &Interface) -> String {
    let (name, room) = (&interface.name, interface.sources.capacity);
    let rate = interface.new_sources.as_deref().unwrap_or("none");
    format!(
        "New sources were refused: they came faster than {rate} (`--new-sources`), or the table had no room. In a flood of spoofed sources this is intended. If they are real: `limiter set {name} --new-sources RATE` with a higher rate, or `limiter detach {name}`, then attach with a --max-sources above {room}."
    )
}

/// The reasons that have packets.
fn reasons_line<const DROPS: bool>(page: &mut Page, label: &str, reasons: &ByReason<DROPS>) {
    let counted = reasons.iter().filter(|(_, count)| count.packets > 0);
    let texts: Vec<_> = counted
        .map(|(reason, count)| format!("{} {}", grouped(count.packets), reason.text()))
        .collect();
    if !texts.is_empty() {
        page.line(label, &texts.join(", "));
    }
}

/// Notes about a trial, another program that decides too, and the mode.
fn notes(interface: &Interface, now: SystemTime) -> Vec<String> {
    let Interface { name, chained, .. } = interface;
    let trial = match (&interface.try_until, &interface.trial_ended) {
        (Some(until), _) => Some(format!(
            "ON TRIAL: undone {} unless you run `limiter keep {name}`.",
            ahead(until, now)
        )),
        (None, ended) => ended.as_ref().map(|ended| {
            let ended = ago(ended, now);
            format!("A trial ended {ended}: the settings before it are in force again.")
        }),
    };
    let log = interface.log.as_ref().map(|log| {
        format!(
            "LOGGING at level {}, which costs time for each packet; it ends {}, or now by `limiter keep {name} --revert`.",
            log.level,
            ahead(&log.until, now)
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
    let last = interface.instead_of_file.as_ref();
    let last = last.map(|why| format!("LAST CONFIGURATION, not that of the file: {why}"));
    let notes = [last, trial, log, chain, fallback, merged, jumbo].into_iter();
    notes.flatten().collect()
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

    /// Status of two interfaces, one with all kinds of values.
    fn sampled() -> Vec<Interface> {
        let mut snapshot: serde_json::Value =
            serde_json::from_str(include_str!("../export/snapshot.json")).unwrap();
        serde_json::from_value(snapshot["interfaces"].take()).unwrap()
    }

    #[test]
    fn status_fits_a_terminal_of_80_columns_and_24_lines() {
        let mut sampled = sampled().swap_remove(0);
        sampled.try_until = Some("2026-11-28T21:16:44Z".to_owned());
        let before = sampled.clone();
        sampled.verdicts.dropped.packets += 1_234_000;
        sampled.verdicts.dropped.bytes += 74_040_000;
        sampled.limits[0].dropped.packets += 1_234_000;
        sampled.limits[0].r#match =
            Some("{ protocol = \"udp\", destination_port = [53, 80, 443] }".to_owned());
        crate::observe::rates::add(&mut sampled, &before, 2.0);
        sampled.fleet = None;
        let text = interface(&sampled, Some(80));
        let lines: Vec<_> = text.lines().collect();
        assert!(lines.len() <= 24, "{text}");
        for line in &lines {
            assert!(line.chars().count() <= 80, "{line}\n{text}");
        }
        let found = |words: &str| {
            let found = lines.iter().position(|line| line.contains(words));
            found.unwrap_or_else(|| panic!("no '{words}' in\n{text}"))
        };
        let order = [
            "ON TRIAL",
            "  packets  24 seen",
            "  bytes    ",
            "  now      0/s passed (0 bit/s), 617,000/s dropped (296.2 Mbit/s)",
            "  drops    7 over the limit",
            "LIMIT",
        ];
        assert!(order.map(found).is_sorted(), "{text}");
        let rows = found("LIMIT");
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(
            lines[rows..rows + 3]
                .iter()
                .map(|line| words(line))
                .collect::<Vec<_>>(),
            [
                "LIMIT RATE PASSED DROPPED WOULD DROP PASS/s OVER/s",
                "all 50% of 1/h 12 1,234,007 0 0 617,000",
                "burst 4, per /32,/64, match { protocol = \"udp\", destination_port = [53, 80,",
            ]
        );
    }

    #[test]
    fn lines_for_a_pipe_stay_whole() {
        let sampled = sampled().swap_remove(0);
        let text = interface(&sampled, None);
        let header = text.lines().find(|line| line.contains("LIMIT")).unwrap();
        let words: Vec<_> = header.split_whitespace().collect();
        assert_eq!(
            words.join(" "),
            "LIMIT RATE BURST PER PASSED DROPPED WOULD DROP"
        );
    }

    #[test]
    fn attachment_that_is_new_has_no_rates() {
        let mut sampled = sampled().swap_remove(0);
        let mut before = sampled.clone();
        before.attached_at = "2026-11-28T21:06:45Z".to_owned();
        crate::observe::rates::add(&mut sampled, &before, 2.0);
        assert_eq!(sampled.rates, None);
    }

    fn lines(fleet: &Fleet) -> String {
        let mut page = Page::new(None);
        fleet_lines(&mut page, fleet);
        page.finish()
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
            lines(&shared),
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
        assert_eq!(lines(&alone), line);
        assert!(!alone.is_shared());
        alone.limits.clear();
        let note = "no limit here is shared: scope = \"fleet\" in a limit shares it";
        assert_eq!(lines(&alone), format!("{line}           {note}\n"));
    }
}

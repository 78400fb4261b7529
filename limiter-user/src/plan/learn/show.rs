//! Writes a proposal as a configuration file, with the reasons in comments.

use limiter_common::table::{
    key::{Address, SourceKey},
    nat64::Nat64,
};
use limiter_config::{Key, Limit, file};

use super::{Learned, Proposal, Watched};
use crate::show::units::{bytes, counted, grouped, seconds};

/// Maximum number of sources far above the rest that are named.
const NAMED_MAX: usize = 5;

/// The file, for `interface` if the traffic was observed there.
pub fn file(interface: Option<&str>, watched: &Watched, proposal: &Proposal) -> String {
    let interfaces: Vec<String> = interface.iter().map(|&name| name.to_owned()).collect();
    let mut lines = about(watched);
    lines.push(new_sources(proposal));
    for (limit, learned) in proposal.settings.limits.iter().zip(&proposal.limits) {
        lines.push(String::new());
        lines.extend(why(limit, learned));
    }
    let comment = lines
        .iter()
        .map(|line| format!("# {line}").trim_end().to_owned() + "\n");
    let comment: String = comment.collect();
    comment + "\n" + &file::show(&interfaces, &proposal.settings)
}

/// The traffic, and the meaning of the file.
fn about(watched: &Watched) -> Vec<String> {
    let (totals, sampler) = (&watched.totals, &watched.sampler);
    let mut lines = vec![
        "Proposed by `limiter learn`, in shadow: limiter counts what it would drop, and drops nothing.".to_owned(),
        "Under each limit, 99.9 % of the usual sources would have lost nothing, before a margin: the next higher".to_owned(),
        "rate, and half more burst.".to_owned(),
        format!(
            "Seen in {}: {} ({}), of {} that came back and about {} that sent one packet.",
            seconds((watched.duration / 100_000_000) as f64 / 10.0),
            counted(totals.seen.packets, "IP packet"),
            bytes(totals.seen.bytes),
            counted(sampler.sources.len() as u64, "source"),
            grouped(sampler.once()),
        ),
        format!(
            "Left out, because the file exempts them: {} of connections, {} of control traffic.",
            counted(totals.connections.packets, "packet"),
            grouped(totals.control.packets),
        ),
    ];
    if sampler.halvings > 0 {
        lines.push(format!(
            "These sources are a random sample: one of {}.",
            grouped(1 << sampler.halvings)
        ));
    }
    if totals.lost.packets > 0 {
        lines.push(format!(
            "{} in the sample came too fast to be read: the limits may be too tight.",
            counted(totals.lost.packets, "packet")
        ));
    }
    if totals.malformed.packets > 0 {
        lines.push(format!(
            "Also {} with a malformed IP header, which limiter drops unless malformed = \"pass\".",
            counted(totals.malformed.packets, "packet")
        ));
    }
    lines
}

/// The reason for the limit on new sources.
fn new_sources(proposal: &Proposal) -> String {
    let (average, most) = proposal.new_sources;
    format!(
        "New sources: about {} a second, at most {} in one; raise new_sources if crowds come at other times.",
        grouped(average),
        grouped(most)
    )
}

/// The reasons for a limit.
fn why(limit: &Limit, learned: &Learned) -> Vec<String> {
    let usual = learned.usual as u64;
    let mut lines = vec![match (usual, learned.once) {
        (0, once) => format!(
            "{}: {} sent one packet.",
            limit.name,
            counted(once, "source")
        ),
        (_, once) => format!(
            "{}: {}, burst {} is just enough for 99.9 % of {}; {} more sent one packet.",
            limit.name,
            learned.rate,
            grouped(learned.burst),
            counted(usual, "usual source"),
            grouped(once)
        ),
    }];
    if limit.matches.other {
        lines.push(
            "It is for what no other limit matches, also what did not come meanwhile: so it is never small."
                .to_owned(),
        );
    }
    if let Some((source, packets)) = &learned.busiest {
        let packets = counted(*packets, "packet");
        lines.push(format!(
            "Most came from {} ({packets}).",
            source_text(source)
        ));
    }
    let far = &learned.far;
    if !far.is_empty() {
        lines.push("Far above the rest (attackers, or friends for the list allow):".to_owned());
    }
    for (source, packets) in far.iter().take(NAMED_MAX) {
        let packets = counted(*packets, "packet");
        lines.push(format!("  {} ({packets})", source_text(source)));
    }
    if far.len() > NAMED_MAX {
        lines.push(format!(
            "  and {} more",
            grouped((far.len() - NAMED_MAX) as u64)
        ));
    }
    if learned.hit > 0 {
        lines.push(format!(
            "{} would have lost packets.",
            counted(learned.hit as u64, "source")
        ));
    }
    lines
}

/// The text for a source.
pub fn source_text(source: &Address) -> String {
    let key = SourceKey::new(source.family, source.words, 0, 0);
    Key::default().show(&key, &Nat64::WELL_KNOWN)
}

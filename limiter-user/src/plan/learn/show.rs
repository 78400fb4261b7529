//! Writes a proposal as a configuration file, with the reasons in comments.

use limiter_common::table::{
    key::{Address, SourceKey},
    nat64::Nat64,
};
use limiter_config::{Key, file};

use super::{Proposal, Watched};
use crate::show::units::{bytes, counted, grouped, seconds};

/// Maximum number of sources far above the rest that are named.
const NAMED_MAX: usize = 5;

/// The file, for `interface` if the traffic was observed there.
pub fn file(interface: Option<&str>, watched: &Watched, proposal: &Proposal) -> String {
    let interfaces: Vec<String> = interface.iter().map(|&name| name.to_owned()).collect();
    let lines = [about(watched), why(proposal)].concat();
    let comment: String = lines.iter().map(|line| format!("# {line}\n")).collect();
    comment + "\n" + &file::show(&interfaces, &proposal.settings)
}

/// The traffic, and the meaning of the file.
fn about(watched: &Watched) -> Vec<String> {
    let (totals, sampler) = (&watched.totals, &watched.sampler);
    let mut lines = vec![
        "Proposed by `limiter learn`, in shadow: limiter counts what it would drop, and drops nothing.".to_owned(),
        "Under the limit, 99.9 % of the usual sources would have lost nothing, before a margin: the next higher".to_owned(),
        "rate, and half more burst. Packets of the host's own connections are exempt, but counted here.".to_owned(),
        format!(
            "Seen in {}: {} ({}), of {} that came back and about {} that sent one packet.",
            seconds((watched.duration / 100_000_000) as f64 / 10.0),
            counted(totals.seen.packets, "IP packet"),
            bytes(totals.seen.bytes),
            counted(sampler.sources.len() as u64, "source"),
            grouped(sampler.once()),
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

/// The reasons for the limit.
fn why(proposal: &Proposal) -> Vec<String> {
    let far = &proposal.far;
    let mut lines = vec![format!(
        "{}, burst {} is just enough for 99.9 % of {}.",
        proposal.rate,
        grouped(proposal.burst),
        counted(proposal.usual as u64, "usual source"),
    )];
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
    lines.push(format!(
        "{} would have lost packets.",
        counted(proposal.hit as u64, "source")
    ));
    lines
}

/// The text for a source.
pub fn source_text(source: &Address) -> String {
    let key = SourceKey::new(source.family, source.words, 0, 0);
    Key::default().show(&key, &Nat64::WELL_KNOWN)
}

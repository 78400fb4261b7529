//! Writes a proposal as a configuration file, with the reasons in comments.

use limiter_common::abi::counters::Count;

use super::{
    Finding, Proposal, Watched,
    choose::{self, WINDOW},
    sample,
    service::Service,
};
use crate::{
    config::{Invalid, NewSources, file, matches::Protocol},
    show::units::{bytes, counted, grouped, seconds},
};

const NAMED_MAX: usize = 5;
const WIDTH: usize = 100;

/// The file, for `interface` if the traffic was observed there. Fails unless the file reads back as the proposal's
/// settings.
pub fn file(
    interface: Option<&str>,
    watched: &Watched,
    proposal: &Proposal,
) -> Result<String, Invalid> {
    let interfaces: Vec<String> = interface.iter().map(|&name| name.to_owned()).collect();
    let plain = file::show(&interfaces, &proposal.settings);
    const LIMIT: &str = "\n[[limit]]\n";
    let mut parts = plain.split(LIMIT);
    let seen = what_was_seen(watched, proposal);
    let seen = seen.iter().map(|line| comment(line));
    let mut text = comment(&what_it_is()) + "#\n" + &seen.collect::<String>() + "\n";
    text.push_str(parts.next().unwrap_or_default());
    for (part, finding) in parts.zip(&proposal.findings) {
        let why = why(finding);
        let why = why.iter().map(|line| comment(line));
        text.push_str(&format!(
            "\n{}{}{part}",
            why.collect::<String>(),
            LIMIT.trim_start()
        ));
    }
    let read = file::parse(&text, std::path::Path::new("."));
    let is_same =
        |read: file::File| read.settings == proposal.settings && read.interfaces == interfaces;
    if read.is_ok_and(is_same) {
        return Ok(text);
    }
    Err(Invalid(
        "the proposed file does not read back as proposed: please report this bug".to_owned(),
    ))
}

/// A few lines about the traffic and the proposal.
pub fn summary(watched: &Watched, proposal: &Proposal) -> Vec<String> {
    let mut lines = what_was_seen(watched, proposal);
    for finding in &proposal.findings {
        lines.push(format!(
            "{}: {}, burst {}: would have dropped {} of the packets, from {} of {}",
            finding.name(),
            finding.choice.rate,
            finding.choice.burst,
            percent(finding.dropped, finding.packets),
            grouped(finding.hit as u64),
            counted(finding.sources as u64, "source"),
        ));
    }
    lines
}

fn what_it_is() -> String {
    format!(
        "Proposed by `limiter learn`: the tightest limits with which 99.9 % of the usual sources would have lost no packet if \
         the same traffic repeated, plus a quarter on the rate and half on the burst, rounded up. The tightest limit \
         passes the fewest packets of a source that sends at full speed for {}. Packets of the host's own connections \
         are exempt, but `learn` could not tell them apart: the limits drop less than this file says. In shadow, \
         limiter counts packets that it would drop, but drops nothing.",
        seconds(choose::seconds(WINDOW)),
    )
}

fn what_was_seen(watched: &Watched, proposal: &Proposal) -> Vec<String> {
    let totals = &watched.totals;
    let sources = proposal.returning + proposal.once;
    let halvings = watched.sampler.halvings();
    let mut lines = vec![format!(
        "Seen in {}: {} ({}).",
        seconds((choose::seconds(watched.duration) * 10.0).round() / 10.0),
        counted(totals.seen.packets, "IP packet"),
        bytes(totals.seen.bytes),
    )];
    lines.push(if halvings == 0 {
        format!("{}: all that sent packets.", counted(sources, "source"))
    } else {
        format!(
            "{}: a random sample of one in {}, of about {} in all, with every packet of each source in the sample.",
            counted(sources, "source"),
            grouped(1 << halvings),
            grouped(sources << halvings),
        )
    });
    if proposal.once > 0 {
        let why = if proposal.made_up {
            "There are so many that most look made up"
        } else {
            "One packet passes every limit"
        };
        lines.push(format!(
            "About {} of them sent only one packet. {why}, so they do not affect rate and burst.",
            grouped(proposal.once)
        ));
    }
    lines.extend(concentration(watched, proposal));
    lines.extend(missing(&totals.lost, watched));
    if totals.malformed.packets > 0 {
        lines.push(format!(
            "In addition, {} had a malformed IP header: limiter drops them unless malformed = \"pass\".",
            counted(totals.malformed.packets, "packet")
        ));
    }
    lines.push(format!(
        "max_sources has room for twice the sources that came back, and for at least {}.",
        grouped(65_536)
    ));
    lines.push(format!(
        "New sources came at up to {}/s. {}",
        grouped(proposal.new_at_most),
        why_new_sources(proposal)
    ));
    if !proposal.without_limit.is_empty() {
        let names: Vec<String> = proposal.without_limit.iter().map(Service::name).collect();
        lines.push(format!(
            "Without a limit of their own, because the last limit is tight enough: {}.",
            names.join(", ")
        ));
    }
    lines
}

/// The rate of new sources, with the reason if it is the default.
fn why_new_sources(proposal: &Proposal) -> String {
    let rate = proposal.settings.new_sources.map(|limit| limit.rate);
    let shown = rate.map_or_else(|| "none".to_owned(), |rate| rate.to_string());
    if rate != Some(NewSources::default().rate) {
        return format!("new_sources is {shown}.");
    }
    format!(
        "new_sources is {shown}, the default: a lower rate, learnt in a quiet hour, would refuse a crowd of new clients. \
         For a lower rate: limiter learn --new-sources RATE."
    )
}

/// A note on a flood during the observation.
fn concentration(watched: &Watched, proposal: &Proposal) -> Option<String> {
    let everything = proposal.findings.last()?;
    let far: u64 = everything.far.iter().map(|(_, packets)| packets).sum();
    if far > 0 {
        let (they, them) = match everything.far.len() {
            1 => ("It does", "it"),
            _ => ("They do", "them"),
        };
        return Some(format!(
            "{} of the packets came from {} far above the rest: a flood, or legitimate sources with more traffic. {they} not count as usual, and the limits apply to {them}. Put legitimate sources on the list allow.",
            percent(far, everything.packets),
            counted(everything.far.len() as u64, "source"),
        ));
    }
    let of_sample = everything
        .packets
        .saturating_mul(1 << watched.sampler.halvings());
    if watched.sampler.halvings() > 0 && of_sample < watched.totals.seen.packets / 2 {
        return Some(format!(
            "The sample has fewer packets than its share ({} of {}): a few sources outside the sample sent most packets, so shares of packets are wrong.",
            grouped(everything.packets),
            grouped(watched.totals.seen.packets),
        ));
    }
    None
}

fn missing(lost: &Count, watched: &Watched) -> Option<String> {
    (lost.packets > 0).then(|| {
        format!(
            "{} of sources in the sample came too fast to be read ({} of all): the proposed limits may be too tight.",
            counted(lost.packets, "packet"),
            percent(lost.packets, watched.totals.seen.packets)
        )
    })
}

fn why(finding: &Finding) -> Vec<String> {
    let (choice, far) = (&finding.choice, &finding.far);
    let what = match finding.service {
        None => "All packets.".to_owned(),
        Some(Service { protocol, port }) => {
            let packets = if protocol == Service::TCP {
                "New connections"
            } else {
                "Packets"
            };
            format!("{packets} to {} port {port}.", Protocol(protocol))
        }
    };
    let mut lines = vec![format!(
        "{what} {}, burst {} would just have been enough for 99.9 % of {}.",
        choice.needed_rate,
        grouped(choice.needed_burst),
        counted(finding.usual as u64, "usual source"),
    )];
    if !far.is_empty() {
        let named = far.iter().take(NAMED_MAX).map(|(source, packets)| {
            format!("{} ({})", sample::show(source), counted(*packets, "packet"))
        });
        let named: Vec<String> = named.collect();
        let more = match far.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {} more", grouped(more as u64)),
        };
        lines.push(format!("Far above the rest: {}{more}.", named.join(", ")));
    }
    lines.push(format!(
        "Of {} that sent more than one packet, the limit below would have dropped packets of {} ({}); of their {}, it would have dropped {} ({}).",
        counted(finding.sources as u64, "source"),
        grouped(finding.hit as u64),
        percent(finding.hit as u64, finding.sources as u64),
        counted(finding.packets, "packet"),
        grouped(finding.dropped),
        percent(finding.dropped, finding.packets),
    ));
    lines.push(format!(
        "{} of the usual sources would have lost packets. With 95 % confidence, at least {} % of all such sources lose nothing.",
        match finding.usual_hit {
            0 => "None".to_owned(),
            hit => grouped(hit as u64),
        },
        in_percent(surely(finding.usual, finding.usual_hit)),
    ));
    lines
}

/// The share of all sources that lose nothing, with 95 % confidence. `hit` of a sample of `sources` lose something.
/// Wilson's lower bound.
#[expect(clippy::cast_precision_loss, reason = "shown, not computed with")]
fn surely(sources: usize, hit: usize) -> f64 {
    /// The one-sided 95 % quantile of the normal distribution.
    const Z: f64 = 1.645;
    let n = sources as f64;
    if hit == 0 {
        return 0.05_f64.powf(1.0 / n);
    }
    let share = (n - hit as f64) / n;
    let middle = share + Z * Z / (2.0 * n);
    let width = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    (middle - width) / (1.0 + Z * Z / n)
}

/// Formats a share as `99.9`, rounded down, because it is a lower bound.
fn in_percent(share: f64) -> String {
    let tenths = if share > 0.999 { 1e3 } else { 1e1 };
    let rounded = (share * 100.0 * tenths + 1e-6).floor() / tenths;
    format!("{rounded}")
}

/// Formats a part as `12.3 %`. Shows 0 only for 0.
#[expect(clippy::cast_precision_loss, reason = "shown, not computed with")]
fn percent(part: u64, whole: u64) -> String {
    if part == 0 || whole == 0 {
        return "0 %".to_owned();
    }
    let share = part as f64 / whole as f64 * 100.0;
    if share < 0.1 {
        "less than 0.1 %".to_owned()
    } else {
        format!("{share:.1} %")
    }
}

/// Formats text as a comment, in lines of [`WIDTH`].
fn comment(text: &str) -> String {
    let (mut lines, mut line) = (String::new(), "#".to_owned());
    for word in text.split_whitespace() {
        if line.len() + 1 + word.len() > WIDTH && line.len() > 1 {
            lines.push_str(&line);
            lines.push('\n');
            line = "#  ".to_owned();
        }
        line.push(' ');
        line.push_str(word);
    }
    lines + &line + "\n"
}

//! Tips about verbs that other programs have, and limiter has under another name.

use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

use super::operands;
use crate::cli::shared::is_interface;

/// Words, and the commands that do what they mean elsewhere.
const TIPS: &[(&str, &str)] = &[
    (
        "list ls",
        "`limiter status` lists the attachments, `limiter bans` the bans, and `limiter deny list IFACE` the deny list",
    ),
    (
        "show info ps state display get ping interfaces list-interfaces devices jail jails qdisc class",
        "`limiter status` shows the attachments, and `limiter config show IFACE` the settings in force",
    ),
    (
        "stats statistics counters monitor live sources",
        "`limiter status` shows the counters, and `limiter top IFACE` the sources, live",
    ),
    (
        "block drop reject blacklist blocklist denylist banip jailed",
        "`limiter ban IFACE ADDRESS` drops a source until `limiter unban IFACE ADDRESS`; `limiter deny add IFACE ADDRESS` puts it on the deny list",
    ),
    (
        "unblock unbanip unjail",
        "`limiter unban IFACE ADDRESS` ends a ban, and `limiter deny remove IFACE ADDRESS` takes a source off the deny list",
    ),
    (
        "permit accept pass whitelist allowlist exempt ignore ignoreip addignoreip delignoreip trust",
        "`limiter allow add IFACE ADDRESS` lets a source pass before any limit",
    ),
    (
        "stop off disable down unload kill uninstall destroy",
        "`limiter detach IFACE` stops limiting, and leaves nothing behind",
    ),
    (
        "remove rm delete del",
        "`limiter detach IFACE` stops limiting, and `limiter deny remove IFACE ADDRESS` takes a source off the deny list",
    ),
    (
        "start on enable up load run create install ratelimit throttle police shape",
        "`limiter attach IFACE --rate RATE` begins to limit",
    ),
    (
        "add new insert append",
        "`limiter attach IFACE --rate RATE` begins to limit, and `limiter deny add IFACE ADDRESS` puts a source on the deny list",
    ),
    (
        "restart refresh apply",
        "`limiter reload IFACE` applies a changed configuration file",
    ),
    (
        "change update modify rate",
        "`limiter set IFACE --rate RATE` changes a limit while traffic flows",
    ),
    (
        "limits rules rule ruleset chain filter policy",
        "`limiter status` shows the limits, `limiter limit IFACE NAME --rate 5/s --port 53` adds one, and `limiter config show IFACE` prints them as a file",
    ),
    (
        "decisions decision alerts bouncers bouncer",
        "`limiter bans` lists the bans, `limiter ban IFACE ADDRESS --for 1h` bans a source, and `limiter feed NAME` takes CrowdSec's decisions over",
    ),
    (
        "senders talkers top-talkers attackers offenders top-sources flows",
        "`limiter watch IFACE --by source,port,protocol --for 10s` prints who sends, and `limiter top IFACE` the sources of the limits, live",
    ),
    (
        "app apps services service",
        "`limiter preset` lists limits for services, and `limiter attach IFACE --preset web` limits by one",
    ),
    (
        "swap",
        "`limiter deny replace IFACE --file FILE` replaces the deny list at once",
    ),
    ("version", "`limiter --version` prints the version"),
    (
        "banned banlist list-bans",
        "`limiter bans` lists the bans, and `limiter check IFACE ADDRESS` shows the ban of a source",
    ),
    (
        "health healthcheck diagnose diagnostics",
        "`limiter doctor IFACE` checks this host and an interface, and `limiter status` shows the attachments",
    ),
    (
        "alert alerting alarm notifications webhook mail",
        "`limiter notify --exec /etc/limiter/on-event` runs a program when a flood begins and when it ends",
    ),
    (
        "reset-counters clear-counters zero-counters reset-stats",
        "counters only grow, and `limiter status --interval 5s` shows rates; `limiter reset IFACE --all` refills all buckets",
    ),
    (
        "logs logging events tail follow trace drops",
        "`limiter watch IFACE` prints drops as they happen, and `limiter log IFACE` what the kernel program reports",
    ),
    (
        "clear flush zero",
        "`limiter reset IFACE --all` refills all buckets, `limiter deny clear IFACE` empties the deny list, and `limiter unban IFACE --all` ends all bans",
    ),
    (
        "save dump export-config backup",
        "`limiter config save IFACE FILE` writes the settings in force to a file, and `limiter config show IFACE` prints them",
    ),
    (
        "diff compare",
        "`limiter config diff IFACE` prints what a reload of the file would change",
    ),
    (
        "audit changes past journal who",
        "`limiter history IFACE` shows who changed what, and when",
    ),
    (
        "visudo vi vim nano",
        "`limiter edit IFACE` opens the configuration in your editor",
    ),
    (
        "presets recipe recipes profile profiles template templates",
        "`limiter preset` lists files for services and attacks, and `limiter attach IFACE --preset web` limits by one",
    ),
    (
        "why whois who-is find lookup query search",
        "`limiter check IFACE ADDRESS` shows the ban, the lists and the limits of a source",
    ),
    (
        "shadow unshadow enforce pause suspend resume",
        "`limiter set IFACE --shadow on` drops nothing any more, and `limiter set IFACE --shadow off` drops again",
    ),
    (
        "undo revert rollback restore",
        "`limiter keep IFACE --revert` undoes a change on trial, and `limiter reload IFACE` returns to the configuration file",
    ),
    (
        "confirm commit",
        "`limiter keep IFACE` keeps a change that is on trial",
    ),
    (
        "country countries geoip geo asn geoblock geo-block block-country ban-country deny-country country-block block-asn ban-asn",
        "`limiter deny add IFACE --file FILE` drops the prefixes of a file; the reference of the file has lists by country and network (geoip, asn)",
    ),
    (
        "metrics prometheus serve web dashboard graph graphs chart charts",
        "`limiter export` serves metrics and a web page, and `limiter status --json` prints the counters",
    ),
    (
        "panic lockdown emergency attack flood ddos",
        "`limiter top IFACE` shows who floods, `limiter ban IFACE ADDRESS` drops a source, and `limiter preset` lists files for attacks",
    ),
    (
        "validate verify lint test dry-run dryrun simulate",
        "`limiter config check FILE` reports the mistakes in a file, and `limiter attach IFACE --rate RATE --shadow` drops nothing",
    ),
];

/// Puts a tip into the error about a wrong verb, or about words behind the verb `verb`, if there is one.
pub fn add(error: &mut Error, verb: Option<&str>) {
    if let Some(tip) = operands::tip(error, verb) {
        error.remove(ContextKind::SuggestedArg);
        error.remove(ContextKind::SuggestedSubcommand);
        put(error, tip);
        return;
    }
    if error.kind() != ErrorKind::InvalidSubcommand {
        return;
    }
    let Some(ContextValue::String(verb)) = error.get(ContextKind::InvalidSubcommand) else {
        return;
    };
    let known = |(words, _): &&(&str, &str)| words.split(' ').any(|word| word == verb);
    let tip = TIPS.iter().find(known).map(|(_, tip)| *tip);
    let misplaced = is_interface(verb)
        .then_some("a verb comes in front of the interface; `--help` lists the verbs");
    if let Some(tip) = tip.or(misplaced) {
        error.remove(ContextKind::SuggestedSubcommand);
        put(error, tip);
        return;
    }
    if let Some(best) = most_similar(error) {
        error.insert(ContextKind::SuggestedSubcommand, best);
    }
}

/// The verb that is most like the wrong one: clap names all that are like it, the best one last. For `attatch`, it names
/// `detach` first.
fn most_similar(error: &Error) -> Option<ContextValue> {
    match error.get(ContextKind::SuggestedSubcommand)? {
        ContextValue::Strings(verbs) => verbs.last().cloned().map(ContextValue::String),
        _ => None,
    }
}

fn put(error: &mut Error, tip: &'static str) {
    let tip = ContextValue::StyledStrs(vec![tip.into()]);
    error.insert(ContextKind::Suggested, tip);
}

#[cfg(test)]
mod tests {
    use super::TIPS;
    use crate::cli::command;

    #[test]
    fn every_tip_is_for_words_that_are_no_verbs_and_names_commands_that_parse() {
        let verbs = command();
        for (words, tip) in TIPS {
            for word in words.split(' ') {
                assert!(verbs.find_subcommand(word).is_none(), "{word} is a verb");
            }
            let commands = tip.split('`').skip(1).step_by(2);
            let mut count = 0;
            for line in commands {
                let line = line
                    .replace("IFACE", "eth0")
                    .replace("ADDRESS", "192.0.2.7")
                    .replace("RATE", "5/s")
                    .replace("NAME", "ssh");
                let read = command().try_get_matches_from(line.split(' '));
                let wrong = read.err().filter(clap::Error::use_stderr);
                assert!(wrong.is_none(), "{line}: {}", wrong.unwrap());
                count += 1;
            }
            assert!(count > 0, "{tip}");
        }
    }

    #[test]
    fn the_verb_that_is_most_similar_is_proposed_alone() {
        for (typed, meant) in [("attatch", "attach"), ("bam", "ban"), ("statsu", "status")] {
            let error = command().try_get_matches_from(["limiter", typed]);
            let mut error = error.unwrap_err();
            super::add(&mut error, None);
            let text = error.to_string();
            assert!(text.contains(&format!("'{meant}'")), "{text}");
            assert!(!text.contains("some similar"), "{text}");
        }
    }
}

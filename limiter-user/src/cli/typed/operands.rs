//! Tips about the words behind a verb: options that other programs have, words where an option belongs, and what is
//! missing.

use std::net::{IpAddr, SocketAddr};

use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use limiter_config::lists::prefix;

/// Stands for an error about nothing in particular: something is missing.
const MISSING: &str = "(missing)";
const ADDRESS: &str = "(address)";
const PREFIX: &str = "(prefix)";
/// A port, alone or behind an address.
const PORT: &str = "(port)";
const TIME: &str = "(time)";

/// Verbs, wrong words, and the commands that do what is meant. The first line that fits is used.
const TIPS: [(&str, &str, &str); 30] = [
    (
        "attach",
        MISSING,
        "`limiter attach IFACE --rate 1k/s --shadow` counts and drops nothing; `--preset web` takes ready-made limits, `--config FILE` those of a file",
    ),
    (
        "attach",
        "--dry-run --check --test --simulate -n",
        "`limiter doctor IFACE` predicts the result, and changes nothing; `limiter attach IFACE --rate RATE --shadow` drops nothing",
    ),
    (
        "attach",
        "--limit --pps --packets --bps --bandwidth",
        "`limiter attach IFACE --rate 1k/s` limits packets, `limiter attach IFACE --rate 10mbit` bits",
    ),
    (
        "set limit",
        "--pps --packets --bps --bandwidth",
        "`limiter set IFACE --rate 1k/s` limits packets, `limiter set IFACE --rate 10mbit` bits",
    ),
    (
        "attach limit check",
        "--tcp --udp --icmp --proto",
        "the protocol is a value, as in `limiter limit IFACE dns --rate 100/s --protocol udp --port 53`",
    ),
    (
        "set",
        "--no-shadow --enforce --drop --live",
        "`limiter set IFACE --shadow off` drops what is over the limits",
    ),
    (
        "set",
        "--exempt --key --mode --max-sources --preset --config --port --protocol",
        "`limiter config show IFACE` prints a file; edit it, then `limiter reload IFACE --config FILE`. `limiter limit IFACE NAME --port 22` changes one limit",
    ),
    (
        "set",
        MISSING,
        "settings are options, as in `limiter set IFACE --rate 500/s` or `limiter set IFACE --shadow off`",
    ),
    (
        "limit",
        "list ls show",
        "`limiter status IFACE` shows the limits",
    ),
    (
        "limit",
        "remove rm delete del --delete",
        "`limiter limit IFACE NAME --remove` removes a limit",
    ),
    (
        "limit",
        "--tier --source --list --match --country",
        "files say more about a limit: `limiter config show IFACE` prints one; edit it, then `limiter reload IFACE --config FILE`",
    ),
    (
        "limit",
        MISSING,
        "`limiter limit IFACE NAME --rate 5/m --port 22` adds a limit, and `limiter status IFACE` shows them",
    ),
    (
        "ban",
        "--duration --time --ttl --timeout --expire --expires --until --minutes --hours",
        "`limiter ban IFACE ADDRESS --for 1h` ends by itself",
    ),
    (
        "ban",
        TIME,
        "`limiter ban IFACE ADDRESS --for 1h` ends by itself",
    ),
    ("ban", "list ls show", "`limiter bans IFACE` lists the bans"),
    (
        "ban",
        "--from --list --input -f",
        "`limiter ban IFACE --file FILE` bans the sources on a list",
    ),
    (
        "unban",
        "(missing) all *",
        "`limiter unban IFACE ADDRESS` ends a ban, and `limiter unban IFACE --all` ends all",
    ),
    (
        "allow deny tier",
        "--from --list --input -f",
        "`limiter deny add IFACE --file FILE` adds the prefixes of a file",
    ),
    (
        "bans status",
        ADDRESS,
        "`limiter check IFACE ADDRESS` shows the ban, the lists and the limits of a source",
    ),
    (
        "check",
        PORT,
        "`limiter check IFACE ADDRESS --protocol tcp --port 443` explains a packet",
    ),
    (
        "check",
        PREFIX,
        "it explains one source; `limiter bans IFACE` lists bans of prefixes, and `limiter deny list IFACE` the deny list",
    ),
    (
        "status",
        "--watch --live --follow -w -f",
        "`limiter top IFACE` shows the counters and sources, live",
    ),
    (
        "top",
        "--sort --by -s",
        "the sources that are dropped most come first; in `limiter top IFACE`, the keys s, < and > sort by another column",
    ),
    (
        "feed",
        "--file --url",
        "a feed is a file with the URL: `man limiter-feed` has an example. `limiter ban IFACE --file FILE` bans the sources on a list once",
    ),
    (
        "export",
        "--once --print --stdout",
        "`limiter export` serves until it is interrupted; `limiter status --json` prints the counters once",
    ),
    (
        "export",
        "--port --address --bind",
        "`limiter export --listen 127.0.0.1:10546` serves at this address",
    ),
    (
        "doctor learn",
        MISSING,
        "write the interface, as in `limiter doctor eth0`: `ip link` lists them",
    ),
    (
        "reset",
        MISSING,
        "`limiter reset IFACE ADDRESS` refills the buckets of a source, `limiter reset IFACE --all` those of all sources",
    ),
    (
        "set limit reload allow deny tier attach",
        "--try",
        "a trial needs a time, as in `limiter set IFACE --rate 500/s --try 2m`",
    ),
    (
        "preset",
        "show print list get",
        "`limiter preset` lists the presets, and `limiter preset web` prints one",
    ),
];

/// The tip about an error of a verb, if there is one.
pub fn tip(error: &Error, verb: &str) -> Option<&'static str> {
    let wrong = wrong_word(error)?;
    let fits = |(verbs, words, _): &&(&str, &str, &str)| {
        let is_word = words.split(' ').any(|word| word == wrong);
        verbs.split(' ').any(|known| known == verb) && (is_word || is_of_kind(&wrong, words))
    };
    TIPS.iter().find(fits).map(|(_, _, tip)| *tip)
}

/// The word that an error is about.
fn wrong_word(error: &Error) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    match error.kind() {
        ErrorKind::UnknownArgument => text(ContextKind::InvalidArg),
        ErrorKind::MissingRequiredArgument => Some(MISSING.to_owned()),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            match text(ContextKind::InvalidValue)? {
                // An option without its value.
                empty if empty.is_empty() => {
                    let option = text(ContextKind::InvalidArg)?;
                    option.split(' ').next().map(str::to_owned)
                }
                value => Some(value),
            }
        }
        _ => None,
    }
}

fn is_of_kind(word: &str, kind: &str) -> bool {
    match kind {
        ADDRESS => word.parse::<IpAddr>().is_ok() || prefix(word).is_ok(),
        PREFIX => word.parse::<IpAddr>().is_err() && prefix(word).is_ok(),
        PORT => word.parse::<u16>().is_ok() || word.parse::<SocketAddr>().is_ok(),
        TIME => humantime::parse_duration(word).is_ok(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{TIPS, tip};
    use crate::cli::command;

    fn tip_about(line: &str) -> Option<&'static str> {
        let error = command().try_get_matches_from(line.split(' '));
        let error = error.expect_err(line);
        tip(&error, line.split(' ').nth(1).unwrap())
    }

    #[test]
    fn every_tip_names_commands_that_parse() {
        for (verbs, _, tip) in TIPS {
            for verb in verbs.split(' ') {
                assert!(command().find_subcommand(verb).is_some(), "{verb}");
            }
            let commands = tip.split('`').skip(1).step_by(2);
            for line in commands.filter(|line| line.starts_with("limiter ")) {
                let line = line
                    .replace("IFACE", "eth0")
                    .replace("ADDRESS", "192.0.2.7")
                    .replace("NAME", "ssh")
                    .replace("RATE", "5/s");
                let read = command().try_get_matches_from(line.split(' '));
                let wrong = read.err().filter(clap::Error::use_stderr);
                assert!(wrong.is_none(), "{line}: {}", wrong.unwrap());
            }
        }
    }

    #[test]
    fn wrong_words_get_the_tip_about_them() {
        for (line, expected) in [
            ("limiter attach eth0", "--preset web"),
            ("limiter attach eth0 --dry-run", "limiter doctor"),
            ("limiter attach eth0 --pps 5", "--rate 1k/s"),
            ("limiter limit eth0 dns --udp", "--protocol udp"),
            ("limiter set eth0 rate 500", "--rate 500/s"),
            ("limiter set eth0 --no-shadow", "--shadow off"),
            ("limiter set eth0 --exempt none", "limiter config show"),
            ("limiter set eth0 --rate 5 --try", "--try 2m"),
            ("limiter limit eth0 dns remove", "--remove"),
            ("limiter limit eth0", "limiter status"),
            ("limiter ban eth0 192.0.2.7 1h", "--for 1h"),
            ("limiter ban eth0 192.0.2.7 --duration 1h", "--for 1h"),
            ("limiter ban eth0 list", "limiter bans"),
            ("limiter ban eth0 --from file", "--file FILE"),
            ("limiter unban eth0 all", "--all"),
            ("limiter deny add eth0 --from file", "--file FILE"),
            ("limiter bans 192.0.2.7", "limiter check"),
            ("limiter check eth0 192.0.2.7 443", "--port 443"),
            ("limiter check eth0 192.0.2.7:443", "--port 443"),
            ("limiter check eth0 192.0.2.0/24", "limiter bans"),
            ("limiter status --watch", "limiter top"),
            ("limiter top eth0 --sort dropped", "keys s"),
            ("limiter feed spam --url http://x", "man limiter-feed"),
            ("limiter export --once", "limiter status --json"),
            ("limiter preset show", "limiter preset web"),
            ("limiter doctor", "limiter doctor eth0"),
        ] {
            let tip = tip_about(line).unwrap_or_else(|| panic!("no tip: {line}"));
            assert!(tip.contains(expected), "{line}: {tip}");
        }
        assert_eq!(tip_about("limiter ban eth0 wrong"), None);
    }
}

//! Tips about the words behind a verb: options that other programs have, words where an option belongs, and what is
//! missing.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use limiter_config::{Protocol, Rate, lists::prefix, matches::PortRange};

use super::operand_tips::{
    ADDRESS, COMMAS, FILE, HOST, MASKED, MISSING, NO_VERB, ORIGIN, PORT, PREFIX, RANGE, RATE,
    RELATIVE, SERVICE, TIME, TIPS, URL, WORD,
};

/// The tip about an error of a verb, if there is one; without a verb, of the whole command line.
pub fn tip(error: &Error, verb: Option<&str>) -> Option<&'static str> {
    about(verb.unwrap_or(NO_VERB), &wrong_word(error)?)
}

/// The tip about a wrong word behind a verb, if there is one.
pub fn about(verb: &str, wrong: &str) -> Option<&'static str> {
    let fits = |(verbs, words, _): &&(&str, &str, &str)| {
        let is_meant = |word: &str| word == wrong || is_of_kind(wrong, word);
        verbs.split(' ').any(|known| known == verb) && words.split(' ').any(is_meant)
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
        ErrorKind::InvalidSubcommand => text(ContextKind::InvalidSubcommand),
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

/// Returns true if a word looks like the path of a file.
pub fn is_file(word: &str) -> bool {
    is_of_kind(word, FILE)
}

fn is_of_kind(word: &str, kind: &str) -> bool {
    match kind {
        ADDRESS => word.parse::<IpAddr>().is_ok() || prefix(word).is_ok(),
        PREFIX => word.parse::<IpAddr>().is_err() && prefix(word).is_ok(),
        PORT => {
            let number = word.split('/').next().unwrap_or_default();
            number.parse::<u16>().is_ok() || word.parse::<SocketAddr>().is_ok()
        }
        TIME => humantime::parse_duration(word).is_ok(),
        RATE => {
            let number = word.strip_prefix("rate=").unwrap_or(word);
            number.starts_with(|first: char| first.is_ascii_digit())
                && number.parse::<Rate>().is_ok()
        }
        WORD => !word.starts_with(['-', '(']),
        RANGE => {
            let ends = word.split_once('-');
            ends.is_some_and(|(first, last)| {
                let is_end = last.parse::<IpAddr>().is_ok() || last.parse::<u8>().is_ok();
                first.parse::<IpAddr>().is_ok() && is_end
            })
        }
        ORIGIN => {
            let number = word.strip_prefix("AS").or(word.strip_prefix("as"));
            let is_network = number.is_some_and(|number| number.parse::<u32>().is_ok());
            is_network || word.len() == 2 && word.bytes().all(|byte| byte.is_ascii_uppercase())
        }
        FILE => {
            let ends = [".toml", ".txt", ".list", ".conf", ".pcap", ".pcapng"];
            word.starts_with(['/', '.', '~']) || ends.iter().any(|end| word.ends_with(end))
        }
        SERVICE => word.split_once('/').is_some_and(|(left, right)| {
            let is = |port: &str, protocol: &str| {
                port.parse::<PortRange>().is_ok() && protocol.parse::<Protocol>().is_ok()
            };
            is(left, right) || is(right, left)
        }),
        MASKED => match word.split_once('/') {
            Some((_, mask)) => mask.parse::<Ipv4Addr>().is_ok(),
            None => word.ends_with(".*"),
        },
        COMMAS => {
            let mut parts = word.trim_end_matches(',').split(',');
            word.contains(',') && parts.all(|part| prefix(part).is_ok())
        }
        HOST => {
            let is_label = |label: &str| {
                label
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            };
            let last = word.rsplit('.').next().unwrap_or_default();
            !is_file(word)
                && word.contains('.')
                && word.split('.').all(is_label)
                && last.bytes().all(|byte| byte.is_ascii_alphabetic())
        }
        RELATIVE => {
            let is_number = word.starts_with(|first: char| first.is_ascii_digit());
            word.ends_with('%') || word.starts_with('+') || is_number && word.ends_with('x')
        }
        URL => word.contains("://"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{NO_VERB, TIPS, tip};
    use crate::cli::command;

    fn tip_about(line: &str) -> Option<&'static str> {
        let error = command().try_get_matches_from(line.split(' '));
        let error = error.expect_err(line);
        tip(
            &error,
            line.split(' ').nth(1).filter(|word| !word.starts_with('-')),
        )
    }

    #[test]
    fn every_tip_names_commands_that_parse() {
        for (verbs, _, tip) in TIPS {
            for verb in verbs.split(' ').filter(|verb| *verb != NO_VERB) {
                assert!(command().find_subcommand(verb).is_some(), "{verb}");
            }
            let commands = tip.split('`').skip(1).step_by(2);
            for line in commands.filter(|line| line.starts_with("limiter ")) {
                let line = line
                    .replace("IFACE", "eth0")
                    .replace("ADDRESS", "192.0.2.7")
                    .replace("PATH", "/etc/limiter/on-event")
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
            ("limiter attach eth0 100/s", "--rate 5/s"),
            ("limiter attach eth0 ./web.toml", "--config FILE"),
            (
                "limiter attach eth0 --rate 5 --port 53/udp",
                "--protocol udp",
            ),
            (
                "limiter check eth0 192.0.2.7 --port 53/udp",
                "--protocol udp",
            ),
            ("limiter attach eth0 --rate 5/m --syn", "--flags syn"),
            ("limiter attach eth0 --rate 5 -p 22", "--port 53"),
            (
                "limiter attach eth0 --rate 5 --exempt 192.0.2.0/24",
                "--allow",
            ),
            ("limiter attach eth0 --rate 5 --whitelist 1", "--allow"),
            ("limiter reload eth0 /etc/x.toml", "--config FILE"),
            ("limiter learn /tmp/x.pcap", "--capture FILE"),
            ("limiter ban eth0 /tmp/list.txt", "--file FILE"),
            ("limiter ban --list", "limiter bans"),
            ("limiter deny add eth0 /tmp/list.txt", "--file FILE"),
            ("limiter notify https://x.example/y", "--webhook"),
            ("limiter notify --email x", "--format mail"),
            ("limiter replay x.pcap", "--preset web"),
            ("limiter history --since 1h", "--last 1h"),
            ("limiter limit eth0 dns --shadow", "--shadow on"),
            ("limiter set eth0 --shadow yes", "--shadow off"),
            ("limiter set eth0 --proof syn-cookie", "limiter reload"),
            ("limiter attach eth0 --rate 5 --per-ip", "--key interface"),
            ("limiter attach eth0 --rate 5 --for 10m", "--try 10m"),
            ("limiter attach eth0 --rate 5 --ignoreip 1", "--allow"),
            ("limiter attach eth0 --rate 5 --log-only", "--shadow"),
            ("limiter attach --iface eth0", "limiter status eth0"),
            ("limiter set eth0 --rate unlimited", "limiter detach"),
            ("limiter set eth0 --rate +10%", "not a change"),
            ("limiter set eth0 --burst 2x", "not a change"),
            ("limiter set eth0 --allow 192.0.2.7", "limiter allow add"),
            ("limiter set eth0 --name web", "--limit NAME"),
            ("limiter ban eth0 203.0.113.0/255.255.255.0", "/24"),
            ("limiter ban eth0 203.0.113.*", "/24"),
            ("limiter ban eth0 203.0.113.10-20", "/29"),
            ("limiter ban eth0 192.0.2.7 --jail sshd", "--origin"),
            ("limiter ban eth0 192.0.2.7 --comment x", "--reason"),
            ("limiter bans --expired", "limiter history"),
            ("limiter unban eth0 everything", "--all"),
            ("limiter check eth0 192.0.2.7 tcp/22", "--protocol udp"),
            ("limiter check eth0 192.0.2.7 --dport 22", "limiter check"),
            ("limiter watch eth0 --by ip", "--by source"),
            ("limiter watch eth0 --by country", "database"),
            ("limiter watch eth0 --dropped", "--passed"),
            ("limiter top eth0 -n 1", "--once"),
            ("limiter top eth0 --limit web", "the key /"),
            ("limiter log eth0 drops", "limiter watch"),
            ("limiter config set", "limiter set"),
            ("limiter config path", "limiter status --json"),
            ("limiter keep eth0 --undo", "--revert"),
            ("limiter notify test", "--test"),
            ("limiter notify --dry-run", "--test"),
            ("limiter reset eth0 --limit web", "in all limits"),
            ("limiter reset eth0 --source 192.0.2.7", "limiter reset"),
            ("limiter attach eth0 --rate 5 --force", "--or-reload"),
            ("limiter allow add eth0 --list", "limiter deny list"),
            ("limiter deny add eth0 192.0.2.7 --reason x", "limiter ban"),
            ("limiter limit eth0 web --rate 5 --for 1m", "--try 10m"),
            ("limiter limit eth0 v6 --rate 5 --prefix 48", "--key /24"),
            ("limiter limit eth0 a --rate 5 --protocol ping", "icmpv6"),
            ("limiter ban eth0 --country RU", "geoip"),
            ("limiter ban eth0 192.0.2.7, 192.0.2.8", "spaces separate"),
            ("limiter ban eth0 192.0.2.7,192.0.2.8", "spaces separate"),
            ("limiter ban eth0 example.com", "not looked up"),
            ("limiter ban eth0 list.txt", "--file FILE"),
            ("limiter top eth0 --rows 5", "--rows 50"),
            ("limiter history eth0 --user root", "--json"),
            ("limiter learn eth0", "--for 10m"),
            ("limiter learn eth0 10m", "--for 10m"),
        ] {
            let tip = tip_about(line).unwrap_or_else(|| panic!("no tip: {line}"));
            assert!(tip.contains(expected), "{line}: {tip}");
        }
        assert_eq!(tip_about("limiter ban eth0 wrong"), None);
        assert_eq!(tip_about("limiter ban eth0 192.0.2.0/33"), None, "no file");
    }
}

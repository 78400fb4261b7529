//! Tips about the words behind a verb: options that other programs have, words where an option belongs, and what is
//! missing.

use std::net::{IpAddr, SocketAddr};

use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use limiter_config::{Protocol, Rate, lists::prefix, matches::PortRange};

/// Stands for an error about nothing in particular: something is missing.
const MISSING: &str = "(missing)";
const ADDRESS: &str = "(address)";
const PREFIX: &str = "(prefix)";
/// A port, alone or behind an address.
const PORT: &str = "(port)";
const TIME: &str = "(time)";
/// A port with its protocol, as in 53/udp.
const SERVICE: &str = "(service)";
const URL: &str = "(url)";
/// A rate, alone or behind `rate=`.
const RATE: &str = "(rate)";
/// Addresses from one to another.
const RANGE: &str = "(range)";
/// A country or an autonomous system.
const ORIGIN: &str = "(origin)";
/// The path of a file.
const FILE: &str = "(file)";
/// A word that is no option.
const WORD: &str = "(word)";
/// No verb: an option stands where one belongs.
const NO_VERB: &str = "limiter";

/// Verbs, wrong words, and the commands that do what is meant. The first line that fits is used.
const TIPS: &[(&str, &str, &str)] = &[
    (
        "attach limit check replay",
        SERVICE,
        "port and protocol are two options, as in `limiter limit IFACE dns --rate 100/s --port 53 --protocol udp`",
    ),
    (
        "attach limit check replay",
        "-p --dport --ports --service --destination-port",
        "`limiter limit IFACE NAME --rate 5/s --port 53` limits a port",
    ),
    (
        "attach limit check replay",
        "--syn --tcp-flags --connections --new",
        "`limiter limit IFACE ssh --rate 5/m --port 22 --flags syn` limits requests to connect",
    ),
    (
        "attach",
        "(prefix) --whitelist --ignore --except --exclude --trust --allowlist",
        "`limiter attach IFACE --rate RATE --allow ADDRESS` lets a source pass before the limit",
    ),
    (
        NO_VERB,
        "-L --list --list-all -l -S --status --state --show --stats",
        "`limiter status` shows the attachments, their limits and counters, and `limiter bans` the bans",
    ),
    (
        NO_VERB,
        "-A -I --add --append --insert",
        "`limiter attach IFACE --rate RATE` begins to limit, and `limiter limit IFACE NAME --rate 5/s --port 53` adds a limit",
    ),
    (
        NO_VERB,
        "-F -X -D -Z --flush --delete --remove --zero",
        "`limiter limit IFACE NAME --remove` removes a limit, `limiter unban IFACE --all` ends all bans, and `limiter detach IFACE` stops limiting",
    ),
    (
        NO_VERB,
        "--reload --restart",
        "`limiter reload IFACE` applies a changed configuration file",
    ),
    (
        NO_VERB,
        "-v --verbose -n",
        "`limiter --version` prints the version; each verb has options of its own: `limiter status --help` lists those of `status`",
    ),
    (
        NO_VERB,
        "--config -c -f --file",
        "`limiter attach IFACE --config FILE` limits by a file, and `limiter config check FILE` reports its mistakes",
    ),
    (
        "attach",
        "-c --conf --file --from -f",
        "`limiter attach IFACE --config FILE` limits by a file",
    ),
    (
        "attach set limit",
        "-r -b (rate) rate burst",
        "rate and burst are options, as in `--rate 5/s --burst 10`",
    ),
    (
        "attach",
        "skb skb-mode drv driver hw offload --generic --native --skb --skb-mode --drv --driver --tc --xdp",
        "the modes are native, generic and tc, as in `limiter attach IFACE --rate RATE --mode generic`; without --mode, the best one that works is used",
    ),
    (
        "attach doctor learn",
        "--all -a",
        "write the interfaces, as in `limiter doctor eth0`: `ip link` lists them",
    ),
    (
        "detach",
        "--force -f --yes -y --now",
        "it asks nothing: leave the option out",
    ),
    (
        "set",
        "(address) banip unbanip ban addip",
        "`limiter ban IFACE ADDRESS` bans a source, and `limiter unban IFACE ADDRESS` ends the ban",
    ),
    (
        "limit",
        "(port)",
        "the port is an option behind a name, as in `limiter limit IFACE ssh --rate 5/m --port 22 --flags syn`",
    ),
    (
        "ban",
        "remove rm delete del clear flush off end",
        "`limiter unban IFACE ADDRESS` ends a ban, and `limiter unban IFACE --all` ends all",
    ),
    (
        "bans",
        "add remove rm delete del clear flush",
        "`limiter ban IFACE ADDRESS` bans a source, `limiter unban IFACE ADDRESS` ends the ban, and `limiter unban IFACE --all` ends all",
    ),
    (
        "ban",
        "for",
        "the time is an option: `limiter ban IFACE ADDRESS --for 1h` ends by itself",
    ),
    (
        "ban",
        "permanent forever --permanent --forever --no-timeout",
        "without --for, a ban lasts until `limiter unban IFACE ADDRESS`",
    ),
    (
        "ban unban check",
        "--ip --host --address --addr --source --src --range --value",
        "the address is no option: it follows the interface, as in `limiter check IFACE ADDRESS`",
    ),
    (
        "allow deny",
        "--ip --host --address --addr --source --src",
        "the address is no option: it follows the interface, as in `limiter deny add IFACE ADDRESS`",
    ),
    (
        "ban unban deny allow tier",
        RANGE,
        "a range is written as prefixes: 192.0.2.8-192.0.2.15 is 192.0.2.8/29",
    ),
    (
        "ban deny allow tier",
        ORIGIN,
        "a list in the configuration file takes countries and networks (`geoip`, `asn`), and `limiter edit IFACE` opens that file; here, write prefixes",
    ),
    (
        "allow deny",
        "(port) port to any ssh http https dns smtp",
        "the lists have sources, and a port is part of a limit: `limiter limit IFACE ssh --rate 5/m --port 22 --flags syn`",
    ),
    (
        "tier",
        "create new make define destroy",
        "lists have their names under [lists] in the configuration file: `limiter edit IFACE` opens it, then `limiter tier add IFACE NAME ADDRESS` adds to one",
    ),
    (
        "tier",
        MISSING,
        "`limiter tier list IFACE NAME` prints one list, and `limiter config show IFACE` all",
    ),
    (
        "status",
        "--all -a -v --verbose --long --detail --short -s verbose numbered long",
        "`limiter status` shows all attachments, and everything that is counted",
    ),
    (
        "status top bans check history doctor config replay preset watch",
        "-o --output --format -j json",
        "`--json` prints a document for programs, as in `limiter status --json`",
    ),
    (
        "reload reset keep set history top log",
        "--all -a",
        "`all` in the place of the interface means every attached one, as in `limiter reload all`",
    ),
    (
        "bans",
        "--all -a --count -c",
        "`limiter bans` lists the bans of all attachments, and `limiter bans --json` has their number",
    ),
    (
        "unban keep reload reset",
        "--force -f --yes -y",
        "it asks nothing: leave the option out",
    ),
    (
        "watch log",
        "-f --follow --tail --live",
        "it goes on until you press Ctrl-C: leave the option out",
    ),
    (
        "watch",
        "-c --max --packets",
        "`limiter watch IFACE -n 5` ends after five packets",
    ),
    (
        "watch",
        "(address) --ip --host --src --address --from",
        "`limiter watch IFACE --source 192.0.2.7` shows the packets of one source",
    ),
    (
        "watch",
        "--port --protocol --proto --dport -p --top --summary --senders senders",
        "`limiter watch IFACE --by source,port,protocol --for 10s` prints who sends, by port and protocol",
    ),
    (
        "log history",
        "-n --lines --since --from -S --days --limit --count --for",
        "`limiter history IFACE --last 1h` shows the changes of the last hour",
    ),
    (
        "history",
        "-f --follow --tail",
        "`limiter watch IFACE` shows drops as they happen, and `limiter history IFACE` what has changed so far",
    ),
    (
        "top",
        "-d --delay --every --refresh",
        "`limiter top IFACE --interval 5s` reads every five seconds",
    ),
    (
        "top",
        "-b --batch -1 --print",
        "`limiter top IFACE --once` prints one reading",
    ),
    (
        "top",
        "senders talkers",
        "`limiter watch IFACE --by source,port,protocol --for 10s` prints who sends, whatever limit the packets meet; in `limiter top IFACE`, key w does",
    ),
    (
        "check replay",
        "(file) --file -f -r --read",
        "`limiter config check FILE` reports the mistakes in a file, and `limiter replay FILE --config FILE` tries it on a capture",
    ),
    (
        "reload edit",
        "(file) -f --file -c --conf",
        "the file is an option, as in `limiter reload IFACE --config FILE`; `limiter edit IFACE` opens the file of the attachment",
    ),
    (
        "config",
        "edit change modify vi",
        "`limiter edit IFACE` opens the configuration in your editor",
    ),
    (
        "config",
        "reload apply load import set",
        "`limiter reload IFACE --config FILE` applies a file",
    ),
    (
        "keep",
        "revert undo rollback back no cancel",
        "`limiter keep IFACE --revert` undoes a change on trial",
    ),
    (
        "reset",
        "counters stats statistics --counters --stats",
        "counters only grow, and `limiter status --interval 5s` shows rates; `limiter reset IFACE --all` refills all buckets",
    ),
    (
        "learn",
        "-t --time --duration --seconds --timeout -d",
        "`limiter learn IFACE --for 10m` watches for ten minutes",
    ),
    (
        "feed",
        "(word) --add",
        "a feed is one file that names its source: `limiter feed PATH`, or NAME of /etc/limiter/feeds/NAME.toml. `man limiter-feed` has an example; `limiter ban IFACE --file FILE` bans the sources on a list once",
    ),
    (
        "notify",
        "--slack --discord --matrix --ntfy --url --http",
        "`limiter notify --webhook https://example.org/hook` sends to a URL; --format has the body of a service",
    ),
    (
        "notify",
        "--email --mail --to --script --command --run",
        "`limiter notify --exec /etc/limiter/on-event` runs a program; with `--format mail` it gets the text of a mail",
    ),
    (
        "agent",
        "start run up status join",
        "it runs until it is interrupted, as in `limiter agent --store redis://store.example`; `limiter status` shows the fleet",
    ),
    (
        "attach",
        MISSING,
        "`limiter attach IFACE --rate 1k/s --shadow` counts and drops nothing; `--preset web` takes ready-made limits, `--config FILE` those of a file",
    ),
    (
        "attach",
        FILE,
        "`limiter attach IFACE --config FILE` takes the limits of a file",
    ),
    (
        "learn",
        FILE,
        "`limiter learn --capture FILE` reads a capture",
    ),
    (
        "ban",
        FILE,
        "`limiter ban IFACE --file FILE` bans the sources on a list",
    ),
    (
        "allow deny tier",
        FILE,
        "`limiter deny add IFACE --file FILE` adds the prefixes of a file",
    ),
    (
        "notify",
        URL,
        "`limiter notify --webhook https://chat.example/hook` calls a URL",
    ),
    (
        "replay",
        MISSING,
        "`limiter replay CAPTURE --config FILE` takes the limits of a file, `--preset web` ready-made ones, `--rate 5/s` one",
    ),
    (
        "ban",
        "--list",
        "`limiter bans IFACE` lists the bans, and `limiter ban IFACE --file FILE` bans the sources on a list",
    ),
    (
        "limit",
        "--shadow",
        "`limiter limit IFACE NAME --shadow on` counts and drops nothing, and `--shadow off` drops",
    ),
    (
        "set",
        "--shadow yes no true false 1 0",
        "`limiter set IFACE --shadow on` drops nothing any more, and `limiter set IFACE --shadow off` drops again",
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
        "--exempt --key --mode --max-sources --preset --config --port --protocol --flags --proof",
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
        "`limiter limit IFACE NAME --rate 5/s --port 53` adds a limit, and `limiter status IFACE` shows them",
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
        "--from --input -f",
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
        "bans",
        ADDRESS,
        "`limiter check IFACE ADDRESS` shows the ban of a source, `limiter ban IFACE ADDRESS` bans one, and `limiter unban IFACE ADDRESS` ends the ban",
    ),
    (
        "status",
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
        "-p --port --address --bind (port)",
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
        "completions",
        MISSING,
        "`limiter completions bash` prints the script for bash; elvish, fish, powershell and zsh have one too",
    ),
    (
        "preset",
        "show print list get",
        "`limiter preset` lists the presets, and `limiter preset web` prints one",
    ),
];

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
                first.parse::<IpAddr>().is_ok() && last.parse::<IpAddr>().is_ok()
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
        SERVICE => word.split_once('/').is_some_and(|(port, protocol)| {
            port.parse::<PortRange>().is_ok() && protocol.parse::<Protocol>().is_ok()
        }),
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
        ] {
            let tip = tip_about(line).unwrap_or_else(|| panic!("no tip: {line}"));
            assert!(tip.contains(expected), "{line}: {tip}");
        }
        assert_eq!(tip_about("limiter ban eth0 wrong"), None);
        assert_eq!(tip_about("limiter ban eth0 192.0.2.0/33"), None, "no file");
    }
}

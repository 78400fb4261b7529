//! The tips about words behind a verb.

/// Stands for an error about nothing in particular: something is missing.
pub const MISSING: &str = "(missing)";
pub const ADDRESS: &str = "(address)";
pub const PREFIX: &str = "(prefix)";
/// A port, alone or behind an address.
pub const PORT: &str = "(port)";
pub const TIME: &str = "(time)";
/// A port with its protocol, as in 53/udp.
pub const SERVICE: &str = "(service)";
pub const URL: &str = "(url)";
/// A rate, alone or behind `rate=`.
pub const RATE: &str = "(rate)";
/// Addresses from one to another.
pub const RANGE: &str = "(range)";
/// A country or an autonomous system.
pub const ORIGIN: &str = "(origin)";
/// The path of a file.
pub const FILE: &str = "(file)";
/// A word that is no option.
pub const WORD: &str = "(word)";
/// A network with a mask or an asterisk instead of a prefix length.
pub const MASKED: &str = "(masked)";
/// Addresses with commas.
pub const COMMAS: &str = "(commas)";
/// The name of a host.
pub const HOST: &str = "(host)";
/// A change of a number, as in +10%.
pub const RELATIVE: &str = "(relative)";
/// No verb: an option stands where one belongs.
pub const NO_VERB: &str = "limiter";

/// Verbs, wrong words, and the commands that do what is meant. The first line that fits is used.
pub const TIPS: &[(&str, &str, &str)] = &[
    (
        "attach limit set status top watch check ban unban bans reset keep learn doctor",
        "--iface --dev --device --nic --if --interfaces",
        "the interface needs no option, as in `limiter status eth0`",
    ),
    (
        "check",
        "-p --dport --ports --service --destination-port",
        "`limiter check IFACE ADDRESS --protocol tcp --port 443` explains a packet",
    ),
    (
        "attach",
        "--per-ip --per-source --per-host --per --by --by-source --each",
        "each source has a bucket of its own, and `limiter attach IFACE --rate 1k/s --key interface` has one for all",
    ),
    (
        "attach",
        "--for --timeout --duration --time --expire --expires --until",
        "`limiter attach IFACE --rate RATE --try 10m` ends after that time, unless `limiter keep IFACE` keeps it",
    ),
    (
        "attach set limit",
        "unlimited none off no inf infinite max",
        "`limiter detach IFACE` ends all limits, `limiter limit IFACE NAME --remove` one, and `limiter set IFACE --shadow on` drops nothing",
    ),
    (
        "attach set limit",
        RELATIVE,
        "a rate or burst is a number, not a change of the present one: `limiter status IFACE` shows that, `limiter set IFACE --rate 500/s` sets another",
    ),
    (
        "set",
        "--allow --deny --whitelist --ban --block",
        "`limiter allow add IFACE ADDRESS` lets a source pass before any limit, and `limiter deny add IFACE ADDRESS` drops it",
    ),
    (
        "set",
        "--name --default --rule",
        "`limiter set IFACE --limit NAME --rate 500/s` changes one limit",
    ),
    (
        "ban unban allow deny tier check",
        MASKED,
        "a network has a prefix length, as in 203.0.113.0/24",
    ),
    (
        "ban",
        "--jail --by --owner --source",
        "`limiter ban IFACE ADDRESS --origin NAME` is a ban of a program, which `limiter unban IFACE --all --origin NAME` ends",
    ),
    (
        "ban",
        "--comment -m --message --note --description --why",
        "`limiter ban IFACE ADDRESS --reason scan` says why",
    ),
    (
        "bans",
        "--expired --old --past --history",
        "a ban that has ended is in no list: `limiter history IFACE` shows bans by hand",
    ),
    (
        "watch",
        "--drops --dropped --blocked",
        "`limiter watch IFACE` prints drops, and `limiter watch IFACE --passed` all packets",
    ),
    (
        "watch",
        "ip address addr host saddr",
        "`limiter watch IFACE --by source --for 10s` counts by source",
    ),
    (
        "watch",
        "prefix subnet net cidr",
        "`limiter watch IFACE --by network --for 10s` counts by /24 and /64",
    ),
    (
        "watch",
        "country countries asn as geo",
        "`limiter top IFACE` shows country and AS of sources if a database is configured",
    ),
    (
        "top",
        "--limit --filter --source --sources --country",
        "in `limiter top IFACE`, the key / filters the sources, and L lists the limits",
    ),
    (
        "top",
        MISSING,
        "`limiter top IFACE --once` prints one reading",
    ),
    (
        "log",
        "drops dropped --drops",
        "`limiter watch IFACE` prints drops as they happen",
    ),
    (
        "config",
        "set",
        "`limiter set IFACE --rate 500/s` changes a limit, `limiter edit IFACE` the file",
    ),
    (
        "config",
        "path file where",
        "`limiter config diff IFACE` compares with the file of the attachment, and `limiter status --json` has its path",
    ),
    (
        "config",
        "rate burst limit limits key shadow exempt mode",
        "`limiter config show IFACE` prints all settings in force",
    ),
    (
        "notify",
        "--dry-run --try --check --send-test",
        "`limiter notify --test --exec /etc/limiter/on-event` sends one event, and prints the answer",
    ),
    (
        "notify",
        MISSING,
        "`limiter notify --exec /etc/limiter/on-event` runs a program, --webhook calls a URL, and with --test it is one event and the answer",
    ),
    (
        "attach",
        "--force --replace --overwrite --update --restart",
        "`limiter attach IFACE --rate RATE --or-reload` replaces the limits that are there, and keeps the buckets",
    ),
    (
        "allow deny tier",
        "--list",
        "`limiter deny list IFACE` shows the deny list",
    ),
    (
        "allow deny",
        "--for --timeout --duration --reason --comment",
        "entries of a list have no end and no reason; `limiter ban IFACE ADDRESS --for 1h --reason scan` has both",
    ),
    (
        "limit",
        "--for --timeout --duration",
        "`limiter limit IFACE NAME --rate 5/s --try 10m` is undone after that time, unless `limiter keep IFACE` keeps it",
    ),
    (
        "limit attach",
        "--prefix --per --by --mask --netmask --srcmask",
        "`--key /24,/48` gives a bucket to each network, as in `limiter limit IFACE NAME --rate 5/s --key /24,/48`",
    ),
    (
        "limit attach check",
        "ping",
        "`limiter limit IFACE ping --rate 5/s --protocol icmp` limits pings of IPv4, icmpv6 those of IPv6",
    ),
    (
        "ban",
        "--country --asn --geoip",
        "a list in the configuration file takes countries and networks (`geoip`, `asn`): `limiter edit IFACE` opens that file",
    ),
    (
        "ban unban allow deny",
        COMMAS,
        "spaces separate addresses, as in `limiter ban IFACE 192.0.2.7 192.0.2.8`",
    ),
    (
        "ban unban allow deny tier check",
        HOST,
        "names are not looked up: write the addresses, as `getent ahosts example.com` prints them",
    ),
    (
        "top",
        "--rows --lines --top",
        "`limiter top IFACE --once` prints the busiest sources, and `limiter top IFACE --once --json` more; `limiter watch IFACE --by source --for 10s --rows 50` has any number",
    ),
    (
        "history",
        "--user --who --by --event",
        "`limiter history IFACE --last 1h` names the user of each change, and --json is for a filter such as jq",
    ),
    (
        "reset",
        "--source --ip --address",
        "`limiter reset IFACE ADDRESS` refills the buckets of a source",
    ),
    (
        "reset",
        "--limit --name",
        "a source's buckets are refilled in all limits, as in `limiter reset IFACE ADDRESS`",
    ),
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
        "(prefix) --whitelist --ignore --ignoreip --except --exclude --trust --allowlist",
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
        "reload apply load import",
        "`limiter reload IFACE --config FILE` applies a file",
    ),
    (
        "keep",
        "revert undo rollback back no cancel --undo --rollback --cancel --no --discard",
        "`limiter keep IFACE --revert` undoes a change on trial",
    ),
    (
        "reset",
        "counters stats statistics --counters --stats",
        "counters only grow, and `limiter status --interval 5s` shows rates; `limiter reset IFACE --all` refills all buckets",
    ),
    (
        "learn",
        "(missing) (time) -t --time --duration --seconds --timeout -d",
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
        "--dry-run --check --test --simulate -n --log-only --monitor --monitor-only --detect --observe",
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
        "(missing) all * everything any",
        "`limiter unban IFACE ADDRESS` ends a ban, and `limiter unban IFACE --all` ends all",
    ),
    (
        "allow deny tier",
        "--from --list --input -f",
        "`limiter deny add IFACE --file FILE` adds the prefixes of a file",
    ),
    (
        "explain",
        "(address) (prefix)",
        "`limiter check IFACE ADDRESS` explains what happens to a source; `limiter explain IFACE` explains a flood",
    ),
    (
        "explain",
        FILE,
        "`limiter explain --capture FILE` reads a capture",
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
        "doctor",
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

//! The first guess of an operator works, or the message has the command that does.

use std::{io::Write as _, process::Stdio};

use limiter_tests::{
    command::{Outcome, prepared},
    files::Folder,
    hosts::{Hosts, on},
    need_kernel,
};

/// Command lines on a host with limiter on `eth0` alone, and a word of the output. All succeed.
const WORK: &str = r#"
status => eth0
status eth0 => eth0
eth0 status => eth0
top --once => eth0
top -i eth0 --once => eth0
check 192.0.2.7 => 192.0.2.7
check eth0 192.0.2.7 => 192.0.2.7
check 192.0.2.7 --interface eth0 => 192.0.2.7
-i eth0 check 192.0.2.7 => 192.0.2.7
check --interface=eth0 192.0.2.7 => 192.0.2.7
check -ieth0 192.0.2.7 => 192.0.2.7
connections => no limit bounds connections
connections eth0 192.0.2.7 => no limit bounds connections
set --rate 20/s => rate 10/s -> 20/s
check 192.0.2.7 --protocol tcp --port https => tcp to port 443
ban 203.0.113.1 => eth0: 203.0.113.1 banned
ban 203.0.113.2 203.0.113.3 --for 10m => and 1 more banned for 10m
bans -i eth0 => 203.0.113.2
bans list => 203.0.113.2
status show => eth0
unban 203.0.113.1 => unbanned
unban eth0 --file BANNED => unbanned
ban add 203.0.113.8 => 203.0.113.8 banned
ban eth0 ip 203.0.113.9 => 203.0.113.9 banned
bans list => 203.0.113.8
bans eth0 show => 203.0.113.9
unban ip 203.0.113.9 => unbanned
unban --all => unbanned
deny eth0 203.0.113.4 => deny: 1 added
deny 203.0.113.5 => deny: 1 added
deny eth0 add 203.0.113.6 => deny: 1 added
deny add 2001:db8::/48 => deny: 1 added
deny list => 203.0.113.4
deny eth0 list => 203.0.113.5
deny show => 203.0.113.6
deny rm 203.0.113.4 => deny: 0 added, 1 removed
deny -i eth0 203.0.113.4 => deny: 1 added
deny clear => removed
deny from 203.0.113.4 => deny: 1 added
allow from 198.51.100.9 => allow: 1 added
allow eth0 198.51.100.0/24 => allow: 1 added
allow 198.51.100.7 => allow: 1 added
tier add partners 192.0.2.0/24 198.51.100.0/24 => partners: 2 added
tier list partners => 192.0.2.0/24
tier partners add 203.0.113.0/24 => partners: 1 added
tier eth0 partners list => 203.0.113.0/24
tier partners rm 203.0.113.0/24 => 1 removed
limit add dns --rate 5/s --port 53 --protocol udp => limit dns new
limit eth0 create ssh --rate 5/m --port 22 => limit ssh new
limit remove dns => limit dns gone
limit eth0 ssh delete => limit ssh gone
limit add dns --rate 5/s --port 53 => limit dns new
limit dns rm => limit dns gone
limit add dns --rate 5/s --port 53 => limit dns new
limit eth0 remove dns => limit dns gone
status dev eth0 => eth0
status show => eth0
check ip 192.0.2.7 => 192.0.2.7
reset 192.0.2.7 => eth0
reset --all => eth0
reload => eth0
keep => not on trial
config show => rate
preset web => interfaces = ["eth0"]
preset show web => interfaces = ["eth0"]
preset list => minecraft
history => eth0: attach by
history eth0 --last 1h => eth0: ban by
eth0 history => rate 10/s -> 20/s
limit add eth0 dns --rate 5/s --port 53 --protocol udp => limit dns new
limit eth0 dns --remove => limit dns gone
config diff => no difference
config diff eth0 => no difference
config compare => no difference
config list => rate
config get eth0 => rate
config validate CONFIG => valid
config save => the settings in force
config save eth0 => the settings in force
"#;

/// Command lines of a mistake that limiter does not guess around, and words of the message.
const TIPS: &str = r"
list => limiter status | limiter deny list
show => limiter status | limiter config show
ps => limiter status
block 203.0.113.1 => limiter ban IFACE ADDRESS
unblock 203.0.113.1 => limiter unban
stop eth0 => limiter detach IFACE
start eth0 => limiter attach IFACE
add eth0 => limiter attach IFACE | limiter deny add
remove eth0 => limiter detach IFACE | limiter deny remove
save => limiter config save IFACE FILE
diff => limiter config diff IFACE
visudo => limiter edit IFACE
audit => limiter history IFACE
logs => limiter watch IFACE | limiter log IFACE
stats => limiter status | limiter top
version => limiter --version
panic on => limiter top IFACE | limiter ban IFACE ADDRESS
completions => limiter completions bash | zsh
statu => 'status'
attatch eth0 --rate 5 => similar subcommand exists: 'attach'
check => ADDRESS
check eth0 => ADDRESS
unban eth0 => CIDR
ban eth0 --for 10m => CIDR
tier list eth0 => NAME
tier add partners => CIDR
deny eth0 => a verb comes in front of the interface
deny eth7 192.0.2.7 => eth7
reset eth0 => ADDRESS
set => IFACE
attach --rate 5 => IFACE
detach => limiter is attached to eth0: write the interface, as in `limiter detach eth0`
detach --strict => `limiter detach eth0 ...`
export -i eth0 => '-i'
attach eth7 => --preset web
attach eth0 --dry-run => limiter doctor IFACE
attach eth0 --pps 100 => --rate 1k/s
attach eth0 100/s => --rate 5/s
attach eth0 --rate 5 --exempt 192.0.2.0/24 => --allow ADDRESS
limit dns --rate 5 --port 53/udp => --protocol udp
limit ssh --rate 5/m --syn => --flags syn
reload /etc/limiter.toml => --config FILE
learn /tmp/capture.pcap => --capture FILE
explain /tmp/capture.pcap => --capture FILE
explain 192.0.2.7 => limiter check IFACE ADDRESS
history --since 1h => --last 1h
ban --list => limiter bans IFACE
ban /tmp/list.txt => --file FILE
set rate 500 => --rate 500/s
set eth0 --no-shadow => --shadow off
set --rate 500 --try => --try 2m
limit => limiter status IFACE
limit all remove => --remove
limit dns --udp --port 53 => --protocol udp
presets => limiter preset
shadow off => --shadow off
undo => limiter keep IFACE --revert
why 192.0.2.7 => limiter check IFACE ADDRESS
check 192.0.2.7 443 => --protocol tcp --port 443
bans 192.0.2.7 => limiter check IFACE ADDRESS
ban 192.0.2.7 1h => '1h' is not a prefix | --for 1h
ban 192.0.2.7 --duration 1h => --for 1h
ban list => limiter bans IFACE
unban all => limiter unban IFACE --all
preset show wep => --help
feed spam /etc/limiter/spam.txt => man limiter-feed | --file FILE
feed add spam https://example.org/drop.txt => man limiter-feed
block-country CN => geoip, asn
ban-country CN => geoip, asn
ban CN => geoip
ban AS64500 => asn
limit list => limiter status IFACE
limit eth0 22/tcp --rate 5/m => --port 53
limit eth0 dns 5/s => --rate 5/s
attach eth0 rate 5/s burst 10 => --rate 5/s --burst 10
attach eth0 5/s => --rate 5/s
attach eth0 -c limiter.toml => --config FILE
attach eth0 --rate 5 --mode skb => --mode generic
attach --all --rate 5 => ip link
detach eth0 --force => leave the option out
set eth0 banip 192.0.2.7 => limiter ban IFACE ADDRESS
banip 192.0.2.7 => limiter ban IFACE ADDRESS
unbanip 192.0.2.7 => limiter unban IFACE ADDRESS
ban remove 192.0.2.7 => limiter unban IFACE ADDRESS
ban --ip 192.0.2.7 => limiter check IFACE ADDRESS
ban 192.0.2.7 for 1h => --for 1h
ban 192.0.2.7 permanent => without --for
ban 192.0.2.8-192.0.2.15 => 192.0.2.8/29
bans flush => limiter unban IFACE --all
allow 22/tcp => --port 22
allow ssh => --port 22
deny 192.0.2.7 port 80 => --port 22
tier create guests => limiter edit IFACE
decisions list => limiter bans
rules => limiter limit IFACE NAME
app list => limiter preset
clear bans => limiter unban IFACE --all
ping => limiter status
-L => limiter status
-F => --remove
--reload => limiter reload IFACE
status verbose => everything that is counted
status -o json => --json
status eth0 json => --json
reload --all => limiter reload all
reload limiter.toml => --config FILE
config edit => limiter edit IFACE
config apply limiter.toml => limiter reload IFACE
watch -f => Ctrl-C
watch eth0 192.0.2.7 => --source
watch --port 53 => --by source,port
history --since 1h => --last 1h
top -d 1 => --interval
top -b => --once
top senders => --by source,port,protocol
learn --duration 60s => --for 10m
replay -r day.pcap => limiter replay FILE
keep revert => --revert
reset counters => --interval 5s
notify --slack https://example.org => --webhook
export -p 9090 => --listen
list-interfaces => limiter status
banned 203.0.113.1 => limiter bans | limiter check IFACE ADDRESS
addignoreip 192.0.2.5 => limiter allow add IFACE ADDRESS
attackers => --by source,port,protocol | limiter top IFACE
follow eth0 => limiter watch IFACE
journal => limiter history IFACE
health => limiter doctor IFACE
alert --exec /bin/true => limiter notify --exec
graph => limiter export
dry-run eth0 => --shadow
reset-counters => --interval 5s
attach eth0 --rate 5 --per-ip => --key interface
attach eth0 --rate 5 --for 10m => --try 10m
attach eth0 --rate 5 --ignoreip 192.0.2.5 => --allow ADDRESS
attach --iface eth0 --rate 5 => limiter status eth0
set eth0 --rate unlimited => limiter detach IFACE | --remove
set eth0 --rate +10% => not a change
set eth0 --allow 192.0.2.5 => limiter allow add IFACE ADDRESS
ban 203.0.113.0/255.255.255.0 => 203.0.113.0/24
ban 203.0.113.2 --jail sshd => --origin NAME
ban 203.0.113.2 --comment scan => --reason scan
unban everything => --all
watch --by ip => --by source
watch --dropped => --passed
top -n 1 => --once
config set rate 10/s => limiter set IFACE --rate
config get rate => limiter config show IFACE
notify test => --test
keep --undo => --revert
check 192.0.2.7 --dport 22 => limiter check IFACE ADDRESS --protocol tcp
";

const FILE: &str = r#"
max_bans = 16
[lists]
partners = []
[[limit]]
name = "all"
rate = "10/s"
"#;

fn lines(table: &str) -> impl Iterator<Item = (&str, Vec<&str>)> {
    let lines = table.lines().filter_map(|line| line.split_once(" => "));
    lines.map(|(line, words)| (line, words.split(" | ").collect()))
}

#[track_caller]
fn expect_words(outcome: &Outcome, words: &[&str]) {
    for word in words {
        assert!(outcome.stdout.contains(word), "'{word}': {outcome:#?}");
    }
}

/// Two hosts, with limiter on the server's `eth0`, from a file.
fn attached(folder: &Folder) -> Hosts {
    let hosts = Hosts::new();
    let file = folder.write("limiter.toml", FILE);
    hosts.run(&["attach", "eth0", "--config", &file]);
    hosts
}

#[test]
fn first_guesses_work_where_limiter_is_attached_to_one_interface() {
    need_kernel!();
    let folder = Folder::new();
    let hosts = attached(&folder);
    let banned = folder.write("banned.txt", "203.0.113.2\n203.0.113.3\n");
    for (line, words) in lines(WORK) {
        let line = line.replace("BANNED", &banned);
        let line = line.replace("CONFIG", &folder.path("limiter.toml"));
        let outcome = hosts.limiter(&line);
        outcome.expect(0);
        expect_words(&outcome, &words);
    }
}

#[test]
fn wrong_guesses_get_the_command_that_works_and_change_nothing() {
    need_kernel!();
    let folder = Folder::new();
    let hosts = attached(&folder);
    for (line, words) in lines(TIPS) {
        hosts.limiter(line).expect_error(2, &words);
    }
    // A file that stands where the interface belongs is one. This one does not exist.
    hosts
        .limiter("config diff nowhere.toml")
        .expect_error(1, &["nowhere.toml", "No such file"]);
    let status = hosts.status();
    assert_eq!(status["limits"].as_array().unwrap().len(), 1, "{status}");
    assert_eq!(status["bans"]["by_origin"], serde_json::json!({}));
}

/// A guess that does something else than was meant says so.
#[test]
fn notes_say_what_a_guess_does_not_do() {
    need_kernel!();
    let hosts = Hosts::new();
    let noted = |line: &str| {
        let outcome = hosts.limiter(line);
        outcome.expect(0);
        outcome.stderr
    };
    let stalls = "a login takes dozens, so that connections stall: `--flags syn`";
    let attached = noted("attach eth0 --rate 5/m --port 22 --protocol tcp");
    assert!(attached.contains(stalls), "{attached}");
    let changed = noted("limit eth0 default --flags syn");
    assert!(!changed.contains(stalls), "{changed}");
    assert!(noted("limit eth0 web --rate 5/m --port 443").contains(stalls));
    let banned = noted("ban eth0 2001:db8:66:1::");
    let network = "`limiter ban eth0 2001:db8:66:1::/64` bans its network";
    assert!(banned.contains(network), "{banned}");
    assert!(!noted("ban eth0 2001:db8:66:1::9 192.0.2.7").contains("/64"));
    // A preset keeps the table that is there.
    let preset = noted("attach eth0 --preset ssh --or-reload");
    let kept = "the table keeps its room for 65536 sources, and the presets want 1000000";
    assert!(preset.contains(kept), "{preset}");
    assert_eq!(hosts.status()["limits"][0]["name"], "ssh");
}

/// A word that is wrong gets its own message, not one about the interface that may be left out.
#[test]
fn interface_that_may_be_left_out_hides_no_other_mistake() {
    need_kernel!();
    let folder = Folder::new();
    let hosts = attached(&folder);
    for (line, word, misleading) in [
        (
            "ban 0.0.0.0/0",
            "too much of the Internet to ban",
            "interface",
        ),
        (
            "ban evil.example",
            "'evil.example' is not a prefix",
            "required",
        ),
        ("check 192.0.2.0/24", "'192.0.2.0/24'", "interface"),
        ("check 192.0.2.7:80", "'192.0.2.7:80'", "interface"),
        ("top -n 5", "--once", "  <IFACE>"),
        ("set --rate 0", "a rate of 0", "required"),
        ("reset", "ADDRESS", "  <IFACE>"),
    ] {
        let outcome = hosts.limiter(line);
        outcome.expect_error(2, &[word]);
        assert!(!outcome.stderr.contains(misleading), "{outcome:#?}");
    }
}

#[test]
fn message_lists_the_interfaces_if_several_are_attached() {
    need_kernel!();
    let folder = Folder::new();
    let hosts = attached(&folder);
    hosts.run("attach eth0:out --rate 1k/s");
    for line in [
        "top --once",
        "check 192.0.2.7",
        "deny 192.0.2.7",
        "reset --all",
        "detach",
    ] {
        let verb = line.split(' ').next().unwrap();
        let words = ["attached to eth0, eth0:out: write the interface", verb];
        hosts.limiter(line).expect_error(2, &words);
    }
    hosts.run("check 192.0.2.7 -i eth0:out");
    let listed = hosts.run("deny list all");
    assert_eq!(listed, "", "nothing was added");
}

/// Without an attachment, the command line is wrong as it stands.
#[test]
fn message_says_that_limiter_is_not_attached() {
    need_kernel!();
    let hosts = Hosts::new();
    for line in ["status", "bans"] {
        let shown = hosts.run(line);
        assert_eq!(
            shown, "limiter is not attached to any interface\n",
            "{line}"
        );
    }
    assert_eq!(hosts.run("bans --json"), "");
    for line in [
        "top",
        "reset --all",
        "check 192.0.2.7",
        "ban 192.0.2.7",
        "set --rate 5",
        "keep",
        "detach",
    ] {
        let words = [
            "limiter is not attached to any interface",
            "limiter attach IFACE --rate",
        ];
        hosts.limiter(line).expect_error(2, &words);
    }
    hosts.limiter("ban evil.example").expect_error(2, &["CIDR"]);
}

/// A list that other programs print ends as many bans as it has. None of them ends if a line is no prefix.
#[test]
fn unban_reads_a_list_from_a_file_or_standard_input() {
    need_kernel!();
    let folder = Folder::new();
    let hosts = attached(&folder);
    let addresses = "203.0.113.1\n203.0.113.2\n";
    let unban = |list: &str| {
        let mut command = prepared("unban eth0 -");
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut unban = on(&hosts.server, || command.spawn()).unwrap();
        unban
            .stdin
            .take()
            .unwrap()
            .write_all(list.as_bytes())
            .unwrap();
        Outcome::of("unban -".to_owned(), unban.wait_with_output().unwrap())
    };
    hosts.run("ban eth0 203.0.113.1 203.0.113.2 203.0.113.3");
    let wrong = unban("203.0.113.1\nnothing\n");
    wrong.expect_error(
        1,
        &["standard input is no list to unban", "none was unbanned"],
    );
    assert!(hosts.run("bans eth0").contains("203.0.113.1"));
    let outcome = unban(addresses);
    outcome.expect(0);
    expect_words(&outcome, &["203.0.113.1 and 1 more unbanned"]);
    let bans = hosts.run("bans eth0");
    assert!(
        !bans.contains("203.0.113.1") && bans.contains("203.0.113.3"),
        "{bans}"
    );
    let empty = folder.write("empty.txt", "# nothing\n");
    let outcome = hosts.limiter(&format!("unban eth0 --file {empty}"));
    outcome.expect(0);
    expect_words(&outcome, &["unchanged: the list is empty"]);
}

#[test]
fn config_diff_takes_the_attachments_own_file_or_says_what_to_type() {
    need_kernel!();
    let folder = Folder::new();
    let hosts = attached(&folder);
    folder.write("limiter.toml", FILE.replace("10/s", "20/s"));
    assert!(hosts.run("config diff").contains("10/s -> 20/s"));
    hosts.run("detach eth0");
    hosts.run("attach eth0 --rate 5");
    hosts.limiter("config diff").expect_error(
        1,
        &[
            "eth0 was not attached from a file",
            "limiter config diff eth0 FILE",
        ],
    );
    let file = folder.path("limiter.toml");
    assert!(
        hosts
            .run(&format!("config diff {file}"))
            .contains("limit all new")
    );
}

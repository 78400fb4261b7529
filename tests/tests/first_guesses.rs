//! The first guess of an operator works, or the message has the command that does.

use limiter_tests::{command::Outcome, files::Folder, hosts::Hosts, need_kernel};

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
set --rate 20/s => rate 10/s -> 20/s
ban 203.0.113.1 => eth0: 203.0.113.1 banned
ban 203.0.113.2 203.0.113.3 --for 10m => and 1 more banned for 10m
bans -i eth0 => 203.0.113.2
unban 203.0.113.1 => unbanned
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
allow eth0 198.51.100.0/24 => allow: 1 added
allow 198.51.100.7 => allow: 1 added
tier add partners 192.0.2.0/24 198.51.100.0/24 => partners: 2 added
tier list partners => 192.0.2.0/24
reset 192.0.2.7 => eth0
reset --all => eth0
reload => eth0
keep => not on trial
config show => rate
preset web => interfaces = ["eth0"]
history => eth0: attach by
history eth0 --last 1h => eth0: ban by
eth0 history => rate 10/s -> 20/s
config diff => no difference
config diff eth0 => no difference
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
statu => 'status'
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
    for (line, words) in lines(WORK) {
        let outcome = hosts.limiter(line);
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
    let status = hosts.status();
    assert_eq!(status["limits"].as_array().unwrap().len(), 1, "{status}");
    assert_eq!(status["bans"]["by_origin"], serde_json::json!({}));
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

use std::{fs, path::Path};

use super::*;

fn settings(text: &str) -> Settings {
    let file = parse(text, Path::new("."));
    file.unwrap_or_else(|mistakes| panic!("{mistakes:?}: {text}"))
        .settings
}

/// The file with the settings of another one.
fn with(text: &str, wanted: &str) -> String {
    let (before, wanted) = (settings(text), settings(wanted));
    rewritten(text, Path::new("."), &before, &wanted).expect("it can be changed")
}

const FILE: &str = r#"# Of the web team.
interfaces = ["eth0", "eth1"]   # both ports

# Ask before you change it.
shadow = true
new_sources = "10000/second"

# Partners.
[lists]
# Never forget the office.
allow = [
    "192.0.2.0/24", # the office
    "198.51.100.7/32", # the monitor
]
deny = ["203.0.113.1"] # by hand

# Connections.
[[limit]]
name = "tcp"       # short
match = { protocol = "tcp", destination_port = "https" } # no UDP
rate = "1000/s"    # measured in May

# Questions.
[[limit]]
name = "dns"
rate = "20/s"
# Large enough for a browser.
burst = 100
[limit.match]
# Not TCP.
protocol = "udp"
"#;

#[test]
fn what_does_not_differ_stays_as_it_was_written() {
    assert_eq!(with(FILE, FILE), FILE);
    let other = FILE.replace("\"1000/s\"", "\"500/s\"");
    let made = with(FILE, &other.replace("https", "443"));
    assert_eq!(made, FILE.replace("\"1000/s\"", "\"500/s\""));
}

#[test]
fn changed_keys_keep_the_comments_around_them() {
    let wanted = r#"
        new_sources = "5k/s"
        max_bans = 16
        exempt = ["control"]
        [lists]
        allow = ["192.0.2.0/24", "192.0.2.9", "203.0.113.5"]
        deny = []
        more = ["192.0.2.1"]
        [control]
        rate = "50/s"
        [[limit]]
        name = "tcp"
        match = { protocol = "tcp", destination_port = [443, 80], ttl = 9 }
        rate = "1k/s"
        [[limit]]
        name = "dns"
        rate = "20/s"
        match = { protocol = "udp", destination_port = 53 }
        [[limit]]
        name = "new"
        rate = 5
    "#;
    let made = with(FILE, wanted);
    assert_eq!(settings(&made), settings(wanted));
    for line in FILE.lines() {
        let (_, comment) = line.split_once('#').unwrap_or_default();
        assert!(made.contains(comment), "{comment}: {made}");
    }
    for kept in [
        "interfaces = [\"eth0\", \"eth1\"]   # both ports\n",
        "    \"192.0.2.0/24\", # the office\n",
        "name = \"tcp\"       # short\n",
        "rate = \"1000/s\"    # measured in May\n",
        "# Ask before you change it.\nnew_sources = \"5k/s\"\n",
        "[limit.match]\n# Not TCP.\nprotocol = \"udp\"\n",
    ] {
        assert!(made.contains(kept), "{kept}: {made}");
    }
    assert!(!made.contains("shadow"), "{made}");
}

#[test]
fn limits_come_go_and_change_places() {
    let wanted = "
        [[limit]]
        name = \"last\"
        rate = 1
        [[limit]]
        name = \"dns\"
        rate = \"20/s\"
        burst = 100
        match = { protocol = \"udp\" }
        [[limit]]
        name = \"first\"
        rate = 7
    ";
    let made = with(FILE, wanted);
    assert_eq!(settings(&made), settings(wanted));
    for comment in [
        "# Connections.",
        "# Questions.",
        "# Large enough",
        "# Not TCP.",
    ] {
        assert!(made.contains(comment), "{comment}: {made}");
    }
}

#[test]
fn lists_of_other_files_keep_them_and_say_what_cannot_be_written() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(
        folder.path().join("partners.txt"),
        "192.0.2.0/24\n198.51.100.0/24\n",
    )
    .expect("written");
    let text =
        "[lists]\ndeny = { file = \"partners.txt\" } # theirs\n[[limit]]\nname = \"a\"\nrate = 1\n";
    let before = parse(text, folder.path()).expect("valid").settings;
    let mut more = before.clone();
    more.lists
        .deny
        .insert("203.0.113.7/32".parse().expect("a prefix"));
    let made = rewritten(text, folder.path(), &before, &more).expect("added");
    let line = "deny = { file = \"partners.txt\", prefixes = [\"203.0.113.7\"] } # theirs\n";
    assert!(made.contains(line), "{made}");
    let back = rewritten(&made, folder.path(), &more, &before).expect("removed");
    assert_eq!(parse(&back, folder.path()).expect("valid").settings, before);
    let mut less = before.clone();
    less.lists
        .deny
        .remove(&"192.0.2.0/24".parse().expect("a prefix"));
    let why = rewritten(text, folder.path(), &before, &less).expect_err("it is in the file");
    assert!(why.to_string().contains("192.0.2.0/24 is still"), "{why}");
}

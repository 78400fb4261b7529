//! Each key of `limiter top` does on a real terminal what its help says.

use std::{fs, path::Path, time::Duration};

use limiter_tests::{
    eventually,
    files::{Folder, at_driver},
    hosts::Hosts,
    need_kernel, need_program, number,
    screen::Screen,
    traffic::{Flood, Traffic, udp},
};
use serde_json::json;

/// Two hosts. Forty sources send to the server, which passes 5 packets per second of each. The view is open.
fn opened() -> (Hosts, Flood, Screen) {
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 5 --burst 10 --new-sources 1k/s");
    let sources = (1..=40_u8).map(|number| format!("198.51.100.{number}"));
    let frames = sources.map(|source| udp(&hosts, source.parse().unwrap(), 9));
    let flood = Flood::start(&hosts, frames.collect(), Duration::from_millis(50));
    eventually("all sources are in the table", || {
        number(&hosts.status()["sources"]["tracked"]) >= 40
    });
    let screen = Screen::open(&hosts.server, (80, 24));
    open(&screen, "");
    (hosts, flood, screen)
}

fn open(screen: &Screen, arguments: &str) {
    screen.limiter(&format!("top eth0 --interval 200ms {arguments}"));
    screen.wait_for("q quit");
}

/// The chosen source.
fn chosen(screen: &Screen) -> String {
    let lines = screen.lines();
    let row = lines.iter().find_map(|line| line.strip_prefix('>'));
    let name = row.and_then(|row| row.split_whitespace().next());
    name.unwrap_or_default().to_owned()
}

fn press(screen: &Screen, key: &str, then: &str) {
    screen.press(key);
    screen.wait_for(then);
}

#[test]
fn sources_are_sorted_and_reversed_by_keys() {
    need_kernel!();
    need_program!("tmux");
    let (_hosts, _flood, screen) = opened();
    screen.wait_for("SOURCES 1-");
    for (key, column) in [
        ("s", "PASSED"),
        ("S", "DROP/s"),
        (">", "PASSED"),
        (">", "DROPPED"),
        (">", "TOKENS"),
        ("s", "SOURCE"),
        ("<", "TOKENS"),
        ("s", "SOURCE"),
    ] {
        screen.press(key);
        screen.wait_for(&format!("by {column}"));
        screen.wait_for(&format!("{column}▼"));
    }
    screen.wait("addresses are in order", |screen| {
        chosen(screen) == "198.51.100.1"
    });
    press(&screen, "i", "by SOURCE reversed");
    screen.wait("the last address is first", |screen| {
        chosen(screen) == "198.51.100.40"
    });
}

#[test]
fn all_sources_are_reached_by_keys() {
    need_kernel!();
    need_program!("tmux");
    let (_hosts, _flood, screen) = opened();
    // By address, so that rows stay in their places.
    press(&screen, "S", "by PASS/s");
    press(&screen, "S", "by SOURCE");
    let is_chosen = |key: &str, number: u8| {
        screen.press(key);
        let name = format!("198.51.100.{number}");
        screen.wait(&format!("{key} chooses {name}"), |screen| {
            chosen(screen) == name
        });
    };
    is_chosen("Home", 1);
    is_chosen("Down", 2);
    is_chosen("Down", 3);
    is_chosen("Up", 2);
    is_chosen("End", 40);
    screen.wait_for("-40 of 40");
    is_chosen("Up", 39);
    is_chosen("Home", 1);
    // A line about drops that comes or goes meanwhile changes the rows of a screen.
    let is_among_the_first = |screen: &Screen| {
        let name = chosen(screen);
        let last = name
            .rsplit('.')
            .next()
            .and_then(|last| last.parse::<u8>().ok());
        last.map(|last| last <= 5)
    };
    screen.press("PageDown");
    screen.wait("a screen further", |screen| {
        is_among_the_first(screen) == Some(false)
    });
    screen.press("PageUp");
    screen.wait("a screen back", |screen| {
        is_among_the_first(screen) == Some(true)
    });
}

#[test]
fn filter_finds_sources_and_escape_clears_it() {
    need_kernel!();
    need_program!("tmux");
    let (_hosts, _flood, screen) = opened();
    press(&screen, "/", "show sources with");
    screen.write("198.51.100.32/30");
    screen.press("Enter");
    screen.wait_for("1-4 of 4 by DROP/s with 198.51.100.32/30");
    press(&screen, "Escape", " of 40 by DROP/s");
    screen.press("/");
    screen.write("100.39");
    screen.press("Enter");
    screen.wait_for("1-1 of 1 by DROP/s with 100.39");
    press(&screen, "Escape", " of 40 by DROP/s");
    screen.press("/");
    screen.write("nowhere");
    screen.press("Enter");
    screen.wait_for("no source matches the filter");
}

#[test]
fn chosen_source_is_banned_allowed_and_reset() {
    need_kernel!();
    need_program!("tmux");
    let (hosts, flood, screen) = opened();
    let name = "198.51.100.7";
    screen.press("/");
    screen.write(name);
    screen.press("Enter");
    screen.wait_for("1-1 of 1");
    // A question that is not answered by y changes nothing.
    press(&screen, "b", &format!("ban {name} for"));
    screen.press("Enter");
    screen.wait_for(&format!("limiter ban eth0 {name} --for 10m"));
    press(&screen, "n", "nothing was changed");
    assert!(!hosts.run("bans eth0").contains(name));

    screen.press("b");
    for _ in 0..3 {
        screen.press("BSpace");
    }
    screen.write("2h");
    screen.press("Enter");
    screen.wait_for(&format!("limiter ban eth0 {name} --for 2h"));
    press(&screen, "y", "banned for 2h");
    assert!(hosts.run("bans eth0").contains(name));
    screen.wait_for("banned");

    press(&screen, "a", &format!("limiter allow add eth0 {name}"));
    press(&screen, "y", "eth0: allow");
    assert!(hosts.run("allow list eth0").contains(name));
    hosts.run(&format!("unban eth0 {name}"));
    hosts.run("allow clear eth0");
    drop(flood);
    press(&screen, "r", &format!("limiter reset eth0 {name}"));
    press(&screen, "y", "refilled 1 bucket");
    // An error is shown like a result.
    hosts.run("detach eth0");
    screen.wait_for("status 1");
}

#[test]
fn other_keys_pause_explain_unfold_and_redraw() {
    need_kernel!();
    need_program!("tmux");
    let (hosts, _flood, screen) = opened();
    for key in ["p", "Space"] {
        press(&screen, key, "PAUSED");
        press(&screen, "s", "the view is paused");
        screen.press(key);
        screen.wait("it goes on", |screen| !screen.text().contains("PAUSED"));
    }
    for key in ["?", "h"] {
        press(&screen, key, "any key leaves this help");
        press(&screen, "x", "SOURCES");
    }
    hosts.run("detach eth0");
    screen.wait_for("status 1");
    hosts.attach_file(
        "interfaces = [\"eth0\"]\n[[limit]]\nname = \"game\"\nrate = \"5/s\"\nmatch = { destination_port = 9 }\n\
         [[limit]]\nname = \"quiet\"\nrate = \"7/m\"\nmatch = { destination_port = 10 }\n",
    );
    open(&screen, "");
    screen.wait_for("LIMITS idle: quiet 7/m");
    press(&screen, "l", "quiet  7/m");
    screen.wait("it has a row", |screen| !screen.text().contains("idle:"));
    list_of_limits_scrolls(&hosts, &screen);
    let before = screen.lines();
    screen.press("C-l");
    screen.wait("the screen is drawn anew", |screen| {
        screen.lines().len() == before.len() && screen.text().contains("SOURCES")
    });
}

/// Thirty limits do not fit. The list shows all of them, by keys.
fn list_of_limits_scrolls(hosts: &Hosts, screen: &Screen) {
    let limit = |number: usize| {
        format!(
            "[[limit]]\nname = \"limit{number}\"\nrate = \"5/s\"\nmatch = {{ destination_port = {number} }}\n"
        )
    };
    let limits: String = (1..=30).map(limit).collect();
    let folder = Folder::new();
    let file = folder.write("limits.toml", at_driver(limits));
    let reload = ["reload", "eth0", "--config", &file];
    hosts.limiter(&reload).expect(0);
    screen.wait_for("more: L lists all");
    press(screen, "L", "of 30; any key but arrows");
    let first = |screen: &Screen, name: &str| {
        let text = screen.text();
        text.contains(&format!("{name} "))
    };
    assert!(first(screen, "limit1"), "{}", screen.text());
    assert!(!first(screen, "limit30"), "{}", screen.text());
    for (key, shown, hidden) in [
        ("End", "limit30", "limit1"),
        ("Home", "limit1", "limit30"),
        ("Down", "limit2", "limit1"),
        ("Up", "limit1", "limit30"),
        ("PageDown", "limit30", "limit1"),
        ("PageUp", "limit1", "limit30"),
    ] {
        screen.press(key);
        screen.wait(key, |screen| first(screen, shown) && !first(screen, hidden));
    }
    press(screen, "x", "SOURCES");
}

/// A packet that no limit matches has no row among the sources, and one in the table of senders.
#[test]
fn senders_are_counted_whatever_limit_they_meet() {
    need_kernel!();
    need_program!("tmux");
    let hosts = Hosts::new();
    hosts.attach_file(
        "interfaces = [\"eth0\"]\n[[limit]]\nname = \"game\"\nrate = \"5/s\"\nmatch = { destination_port = 9 }\n",
    );
    let frames = [("198.51.100.7", 9), ("198.51.100.8", 8_080)]
        .map(|(source, port)| udp(&hosts, source.parse().unwrap(), port));
    let _flood = Flood::start(&hosts, frames.into(), Duration::from_millis(20));
    let screen = Screen::open(&hosts.server, (80, 24));
    open(&screen, "");
    screen.wait_for("w senders");
    screen.wait_for("198.51.100.7");
    assert!(!screen.text().contains("198.51.100.8"), "{}", screen.text());
    press(&screen, "w", "limiter watch --by source,port,protocol");
    screen.wait_for("WHO SENDS 1-");
    let row = |source: &str| {
        let lines = screen.lines();
        let row = lines.iter().find(|line| line.contains(source)).cloned();
        row.unwrap_or_else(|| panic!("no {source}: {lines:#?}"))
    };
    let words =
        |row: String| -> Vec<String> { row.split_whitespace().map(str::to_owned).collect() };
    assert_eq!(words(row("198.51.100.8"))[1..3], ["8080", "udp"]);
    assert!(row("198.51.100.8").ends_with(" 0 %"), "{}", screen.text());
    assert!(!row("198.51.100.7").ends_with(" 0 %"), "{}", screen.text());
    press(&screen, "w", "limiter watch --by");
    screen.wait_for("WHO SENDS 1-");
    press(&screen, "x", "SOURCES");
    // The program reports packets that pass only while it is asked to.
    screen.press("q");
    screen.wait_for("status 0");
    press_after_detach(&hosts, &screen);
}

/// An error of the command is shown like that of others.
fn press_after_detach(hosts: &Hosts, screen: &Screen) {
    open(screen, "");
    screen.press("p");
    screen.wait_for("PAUSED");
    hosts.run("detach eth0");
    press(screen, "w", "not attached");
}

#[test]
fn sources_have_their_countries_and_networks() {
    need_kernel!();
    need_program!("tmux");
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let databases = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/places");
    for name in ["country.mmdb", "asn.mmdb"] {
        folder.write(name, fs::read(databases.join(name)).unwrap());
    }
    let text = "[lists]\nabroad = { geoip = [\"CN\"], database = \"country.mmdb\" }\n\
                partners = { asn = 64500, database = \"asn.mmdb\" }\n\
                [[limit]]\nname = \"one\"\nrate = \"1/h\"\nburst = 1\n";
    let file = folder.write("limiter.toml", at_driver(text));
    let attach = ["attach", "eth0", "--config", &file];
    hosts.limiter(&attach).expect(0);
    let traffic = Traffic::new(&hosts);
    for source in ["192.0.2.7", "198.51.100.7", "203.0.113.7"] {
        traffic.passed(source, 2);
    }
    let top = hosts.json("top eth0 --once --interval 100ms --json");
    let sources = top["sources"].as_array().unwrap().iter();
    let places: Vec<_> = sources
        .map(|source| ["source", "country", "autonomous_system"].map(|key| source[key].clone()))
        .collect();
    let expected = json!([
        ["192.0.2.7", "CN", null],
        ["198.51.100.7", "FR", null],
        ["203.0.113.7", null, 64500],
    ]);
    assert_eq!(json!(places), expected);
    let screen = Screen::open(&hosts.server, (80, 24));
    open(&screen, "");
    screen.wait_for("192.0.2.7 CN");
    screen.wait_for("203.0.113.7 AS64500");
    screen.press("q");
    // Without a database, the view says so, and goes on.
    fs::remove_file(folder.path("asn.mmdb")).unwrap();
    let without = hosts.limiter("top eth0 --once --interval 100ms");
    without.expect(0);
    assert!(without.stdout.contains("192.0.2.7 CN"), "{without:#?}");
    assert!(without.stderr.contains("asn.mmdb"), "{without:#?}");
}

#[test]
fn tab_shows_the_next_interface() {
    need_kernel!();
    need_program!("tmux");
    let (hosts, _flood, screen) = opened();
    screen.press("q");
    screen.wait_for("status 0");
    hosts.run("attach lo --rate 5 --mode generic");
    let printed = hosts.run("top all --once --json --interval 100ms");
    assert_eq!(printed.lines().count(), 2, "{printed}");
    for arguments in ["", "lo"] {
        open(&screen, arguments);
        screen.wait_for("Tab next");
        screen.wait_for("eth0 native");
        press(&screen, "Tab", "lo generic");
        press(&screen, "Tab", "eth0 native");
        screen.press("q");
        screen.wait_for("status 0");
    }
}

#[test]
fn colours_follow_the_option_and_the_variable() {
    need_kernel!();
    need_program!("tmux");
    let (_hosts, _flood, screen) = opened();
    screen.press("q");
    screen.wait_for("status 0");
    let binary = limiter_tests::command::binary();
    for (variable, option, is_coloured) in [
        ("", "auto", true),
        ("1", "auto", false),
        ("1", "always", true),
        ("", "never", false),
    ] {
        screen.run(&format!(
            "NO_COLOR={variable} {} top eth0 --interval 200ms --color {option}",
            binary.display()
        ));
        screen.wait("packets are dropped now", |screen| {
            let lines = screen.lines();
            let over = lines.iter().find(|line| line.starts_with("  over a limit"));
            over.is_some_and(|line| !line.contains(" -/s") && !line.contains(" 0/s"))
        });
        // Red, in either of its forms.
        let is_red = |screen: &Screen| {
            let text = screen.coloured();
            text.contains("[31m") || text.contains("38;5;1m")
        };
        if is_coloured {
            screen.wait("drops are red", is_red);
        } else {
            // A reading without drops would have no red one either.
            for _ in 0..10 {
                assert!(!is_red(&screen), "NO_COLOR={variable} --color {option}");
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        screen.press("q");
        screen.wait_for("status 0");
    }
}

#[test]
fn last_of_many_sources_is_reached() {
    need_kernel!();
    need_program!("tmux");
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 5 --burst 10 --new-sources 10k/s");
    let sources = (0..700_u32).map(|number| std::net::Ipv4Addr::from(0xc612_0000 + number));
    let frames = sources.map(|source| udp(&hosts, source.into(), 9));
    let flood = Flood::start(&hosts, frames.collect(), Duration::from_millis(100));
    eventually("all sources are in the table", || {
        number(&hosts.status()["sources"]["tracked"]) >= 700
    });
    drop(flood);
    let screen = Screen::open(&hosts.server, (80, 24));
    open(&screen, "");
    press(&screen, "S", "by PASS/s");
    press(&screen, "S", "by SOURCE");
    press(&screen, "End", "-700 of 700");
    screen.wait("the last address", |screen| {
        chosen(screen) == "198.18.2.187"
    });
    screen.press("Up");
    screen.wait("the one before", |screen| chosen(screen) == "198.18.2.186");
    screen.press("Home");
    screen.wait("the first address", |screen| chosen(screen) == "198.18.0.0");
}

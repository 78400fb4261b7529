//! The keys of the view pause, sort and filter it, and deny, allow and reset sources like the commands.

use limiter_tests::{hosts::Hosts, number, screen::Screen};

use super::{FLOODER, dropped, flood, is_first, limited, rows};

fn opened(hosts: &Hosts) -> Screen {
    let screen = Screen::open(&hosts.server, (80, 24), &[]);
    screen.limiter("top eth0 --interval 200ms");
    screen.wait("the flooder is first", |screen| is_first(screen, FLOODER));
    screen
}

fn sources(screen: &Screen) -> Vec<String> {
    let rows = rows(screen).into_iter();
    let source = |row: Vec<String>| row.into_iter().find(|field| field.contains('.'));
    rows.filter_map(source).collect()
}

#[test]
fn keys_pause_sort_and_filter_the_view() {
    need_terminal!();
    let hosts = limited();
    let _flood = flood::start(&hosts);
    let screen = opened(&hosts);

    screen.press("p");
    screen.wait_for("PAUSED");
    let seen = screen.lines();
    let then = number(&hosts.status()["dropped"]["packets"]);
    limiter_tests::eventually("the flood continues", || {
        number(&hosts.status()["dropped"]["packets"]) > then + 1_000
    });
    assert_eq!(screen.lines(), seen, "a paused view does not change");
    screen.press("p");
    let old = shown_drops(&seen);
    screen.wait("more drops", |screen| dropped(screen) > old);

    screen.wait("all rows", |screen| rows(screen).len() == 3);
    let orders = ["dropped", "passed/s", "passed", "tokens", "address"];
    for order in orders {
        screen.press("s");
        let title = format!("3 sources by {order}");
        screen.wait(&title, |screen| screen.lines().contains(&title));
    }
    screen.wait("sorted by address", |screen| {
        sources(screen) == ["192.0.2.7", "192.0.2.9", FLOODER]
    });
    screen.press("s");
    screen.wait("the flooder is first", |screen| is_first(screen, FLOODER));

    screen.write("/192.0.2.6");
    screen.wait("one is left", |screen| sources(screen) == [FLOODER]);
    screen.press("Enter");
    screen.wait_for("1 source by dropped/s  filter: 192.0.2.6");
    screen.press("q");
    screen.wait_for("status 0");
}

fn shown_drops(lines: &[String]) -> u64 {
    let row = lines.iter().find(|line| line.starts_with('>')).unwrap();
    let fields: Vec<_> = row.split_whitespace().collect();
    super::shown(fields[fields.len() - 2])
}

fn on_list(hosts: &Hosts, list: &str) -> String {
    hosts.run(&format!("{list} list eth0"))
}

#[test]
fn keys_deny_allow_and_reset_a_source() {
    need_terminal!();
    let hosts = limited();
    let flood = flood::start(&hosts);
    let screen = opened(&hosts);

    // The view asks for confirmation, and another key cancels.
    screen.press("d");
    screen.wait_for("Deny 192.0.2.66?");
    screen.press("n");
    screen.wait_for("nothing was changed");
    assert_eq!(on_list(&hosts, "deny"), "");

    screen.press("d");
    screen.wait_for("Deny 192.0.2.66?");
    screen.press("y");
    screen.wait_for("deny: 1 added, 1 on it now");
    assert_eq!(on_list(&hosts, "deny"), "192.0.2.66\n");
    let denied = || number(&hosts.status()["drops"]["deny"]["packets"]);
    limiter_tests::eventually("the source is denied", || denied() > 0);
    screen.wait("it is marked", |screen| {
        let of_flooder = |row: &&Vec<String>| row.contains(&FLOODER.to_owned());
        let rows = rows(screen);
        let row = rows.iter().find(of_flooder);
        row.is_some_and(|row| row.contains(&"deny".to_owned()))
    });
    screen.press("d");
    screen.wait_for("Remove 192.0.2.66 from the deny list?");
    screen.press("y");
    screen.wait_for("deny: 1 removed, 0 on it now");
    assert_eq!(on_list(&hosts, "deny"), "");

    screen.press("a");
    screen.wait_for("Put 192.0.2.66 on the allow list?");
    screen.press("y");
    screen.wait_for("allow: 1 added, 1 on it now");
    assert_eq!(on_list(&hosts, "allow"), "192.0.2.66\n");
    // The view continues, although the program has been swapped four times.
    hosts.run("set eth0 --rate 1/h");
    screen.wait_for("default 1/h, burst 10");
    screen.press("Home");

    drop(flood);
    let check = |name: &str| {
        let check = hosts.json("check eth0 192.0.2.7 --json");
        check["limits"][0][name].clone()
    };
    assert_eq!(check("tracked"), true);
    assert!(number(&check("dropped_packets")) > 0);
    screen.write("/192.0.2.7");
    screen.press("Enter");
    screen.wait("one source is shown", |screen| {
        sources(screen) == ["192.0.2.7"]
    });
    screen.press("r");
    screen.wait_for("Reset 192.0.2.7?");
    screen.press("y");
    screen.wait_for("192.0.2.7 is forgotten: its bucket is full again");
    assert_eq!(check("tracked"), false);
    screen.press("q");
    screen.wait_for("status 0");
}

#[test]
fn failed_actions_are_shown_in_the_view() {
    need_terminal!();
    let hosts = limited();
    let _flood = flood::start(&hosts);
    // The list contains a wider prefix, not the source itself.
    hosts.run("deny add eth0 192.0.2.64/26");
    hosts.run("allow add eth0 192.0.2.7");
    hosts.run("deny remove eth0 192.0.2.64/26");
    let screen = opened(&hosts);
    hosts.run("deny add eth0 192.0.2.64/26");
    screen.wait("it is marked", |screen| {
        let of_flooder = |row: &&Vec<String>| row.contains(&FLOODER.to_owned());
        let rows = rows(screen);
        let row = rows.iter().find(of_flooder);
        row.is_some_and(|row| row.contains(&"deny".to_owned()))
    });
    screen.write("/192.0.2.66");
    screen.press("Enter");
    screen.wait("one source is shown", |screen| sources(screen) == [FLOODER]);
    screen.press("d");
    screen.wait_for("Remove 192.0.2.66 from the deny list?");
    screen.press("y");
    screen.wait_for("192.0.2.66 is not on deny");
    assert_eq!(on_list(&hosts, "deny"), "192.0.2.64/26\n");
    screen.press("q");
    screen.wait_for("status 0");
}

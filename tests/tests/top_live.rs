//! `limiter top` works on a real terminal, with a flood on a real wire, and gives the terminal back.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    time::Duration,
};

use limiter_tests::{
    command::{Outcome, prepared},
    hosts::{Hosts, on},
    need_kernel, need_program, number,
    screen::Screen,
    traffic::{Flood, udp},
};
use nix::sys::signal::Signal;

const SIZE: (u16, u16) = (80, 24);
const FLOODER: &str = "192.0.2.66";

/// Two hosts. The server passes 5 packets per second of each source.
fn limited() -> Hosts {
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 5 --burst 10");
    hosts
}

/// Starts the view on a terminal. Returns the terminal, and its settings before.
fn opened(hosts: &Hosts) -> (Screen, String) {
    let screen = Screen::open(&hosts.server, SIZE);
    let state = screen.state();
    start(&screen);
    (screen, state)
}

fn start(screen: &Screen) {
    screen.limiter("top eth0 --interval 200ms");
    screen.wait_for("q quit");
    assert_eq!(screen.variable("alternate_on"), "1");
}

/// The fields of the lines below the title `SOURCE`, without the mark of the chosen one.
fn rows(screen: &Screen) -> Vec<Vec<String>> {
    let lines = screen.lines().into_iter();
    let lines = lines
        .skip_while(|line| !line.starts_with(" SOURCE"))
        .skip(1);
    lines
        .take_while(|line| line.starts_with([' ', '>']))
        .map(|line| line[1..].split_whitespace().map(str::to_owned).collect())
        .collect()
}

fn is_first(screen: &Screen, source: &str) -> bool {
    rows(screen).first().is_some_and(|row| row[0] == source)
}

/// Number of drops of the first source.
fn dropped(screen: &Screen) -> u64 {
    rows(screen)[0][4].replace(',', "").parse().unwrap()
}

#[test]
fn view_shows_a_flood_and_follows_its_keys() {
    need_kernel!();
    need_program!("tmux");
    let hosts = limited();
    // Each source sends more than the next.
    let frames = [(FLOODER, 16), ("192.0.2.7", 4), ("192.0.2.9", 1)];
    let frames = frames.map(|(source, count)| vec![udp(&hosts, source.parse().unwrap(), 9); count]);
    let flood = Flood::start(&hosts, frames.concat(), Duration::from_millis(10));
    let (screen, _) = opened(&hosts);
    screen.wait("the flooder is first", |screen| is_first(screen, FLOODER));
    let before = dropped(&screen);
    screen.wait("its drops grow", |screen| dropped(screen) > before);
    assert!(dropped(&screen) <= number(&hosts.status()["dropped"]["packets"]));

    screen.press("p");
    screen.wait_for("PAUSED");
    let seen = screen.lines();
    let then = number(&hosts.status()["dropped"]["packets"]);
    limiter_tests::eventually("the flood continues", || {
        number(&hosts.status()["dropped"]["packets"]) > then + 1_000
    });
    assert_eq!(screen.lines(), seen, "a paused view does not change");
    screen.press("p");
    hosts.run(&format!("ban eth0 {FLOODER}"));
    screen.wait("it is marked", |screen| {
        rows(screen).concat().contains(&"banned".to_owned())
    });
    drop(flood);
    screen.wait("nothing is dropped any more", |screen| {
        let lines = screen.lines();
        lines
            .iter()
            .any(|line| line.starts_with("dropped") && line.contains(" 0/s"))
    });
    screen.press("q");
    screen.wait_for("status 0");
}

/// The rate in this column of a row.
fn rate_in(row: Option<&str>, column: usize) -> Option<f64> {
    let cell = row?.split_whitespace().nth(column)?;
    cell.trim_end_matches("/s").replace(',', "").parse().ok()
}

#[test]
fn spoofed_flood_is_named_on_the_first_screen() {
    need_kernel!();
    need_program!("tmux");
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 5 --burst 10 --new-sources 1/s --max-sources 1k");
    let sources = (0..2_000_u32).map(|number| 0xc612_0000 + number);
    let frames = sources.map(|source| udp(&hosts, std::net::Ipv4Addr::from(source).into(), 9));
    let flood = Flood::start(&hosts, frames.collect(), Duration::from_millis(10));
    let (screen, _) = opened(&hosts);
    screen.wait("the flood is the first reason", |screen| {
        let lines = screen.lines();
        let dropped = lines.iter().position(|line| line.starts_with("dropped"));
        let reason = dropped.and_then(|place| lines.get(place + 1));
        reason.is_some_and(|line| line.starts_with("  new sources (spoofed?)"))
    });
    // The limit was asked about few of these packets: new sources are not over it.
    screen.press("l");
    screen.wait("the limit's own drops are few", |screen| {
        let lines = screen.lines();
        let title = lines.iter().position(|line| line.starts_with("LIMIT "));
        let row = title.and_then(|title| lines.get(title + 1));
        let over = rate_in(row.map(String::as_str), 3);
        let refused = lines.iter().find(|line| line.contains("(spoofed?)"));
        let refused = rate_in(refused.map(String::as_str), 3);
        over.zip(refused)
            .is_some_and(|(over, refused)| 4.0 * over < refused)
    });
    drop(flood);
}

#[test]
fn json_is_a_line_for_each_reading_until_it_is_interrupted() {
    need_kernel!();
    let hosts = limited();
    let mut top = on(&hosts.server, || {
        let mut top = prepared("top eth0 --json -n 1 --interval 100ms");
        top.stdout(Stdio::piped()).spawn().unwrap()
    });
    let lines = BufReader::new(top.stdout.take().unwrap()).lines();
    for line in lines.take(3) {
        let top: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        assert_eq!(top["interface"], "eth0");
        assert!(top["interval_seconds"].as_f64().unwrap() > 0.05, "{top}");
    }
    // The reader is gone: that is no failure.
    assert_eq!(top.wait().unwrap().code(), Some(0));
    let mut top = on(&hosts.server, || {
        let mut top = prepared("top eth0 --json");
        top.stdout(Stdio::null()).spawn().unwrap()
    });
    let process = nix::unistd::Pid::from_raw(top.id().try_into().unwrap());
    limiter_tests::eventually("it has given up its rights", || {
        limiter_tests::processes::status_of(process, "NoNewPrivs") == "1"
    });
    nix::sys::signal::kill(process, Signal::SIGINT).unwrap();
    assert_eq!(top.wait().unwrap().code(), Some(0));
}

#[test]
fn keys_and_signals_end_the_view() {
    need_kernel!();
    need_program!("tmux");
    let hosts = limited();
    let (screen, state) = opened(&hosts);
    let after = |end: &dyn Fn(&Screen)| {
        end(&screen);
        screen.wait_for("status 0");
        screen.expect_given_back(&state);
    };
    after(&|screen| screen.press("q"));
    start(&screen);
    after(&|screen| screen.press("C-c"));
    start(&screen);
    after(&|screen| screen.press("Escape"));
    for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT] {
        start(&screen);
        after(&|screen| screen.signal(signal));
    }
    start(&screen);
    let process = screen.process();
    drop(screen);
    limiter_tests::eventually("the view ends with its terminal", || {
        nix::sys::signal::kill(process, None).is_err()
    });
}

#[test]
fn view_follows_changes_and_ends_on_detach_or_without_the_interface() {
    need_kernel!();
    need_program!("tmux");
    let hosts = limited();
    let (screen, state) = opened(&hosts);
    for (columns, lines) in [(40, 10), (120, 40), (20, 4), SIZE] {
        screen.resize((columns, lines));
        screen.wait("the last line is the last", |screen| {
            let seen = screen.lines();
            let (first, last) = (seen.first(), seen.last());
            seen.len() == usize::from(lines)
                && first.is_some_and(|line| line.starts_with("eth0 native"))
                && last.is_some_and(|line| line.starts_with("q quit"))
        });
    }
    hosts.run("set eth0 --rate 7");
    screen.wait_for("7/s");
    hosts.run("detach eth0");
    screen.wait_for("status 1");
    let text = screen.text();
    assert!(text.contains("limiter is not attached to 'eth0'"), "{text}");
    screen.expect_given_back(&state);

    hosts.run("attach eth0 --rate 5");
    start(&screen);
    let gone = on(&hosts.server, || {
        let mut delete = Command::new("ip");
        delete.args(["link", "delete", "eth0"]).status().unwrap()
    });
    assert!(gone.success());
    screen.wait_for("status 1");
    let text = screen.text();
    assert!(text.contains("the interface is gone"), "{text}");
    screen.expect_given_back(&state);
}

#[test]
fn top_without_a_terminal_names_option_once() {
    need_kernel!();
    need_program!("tmux");
    let hosts = limited();
    let piped = on(&hosts.server, || {
        let mut top = prepared("top eth0");
        top.stdin(Stdio::null())
            .env("TERM", "xterm")
            .output()
            .unwrap()
    });
    Outcome::of("top".to_owned(), piped).expect_error(2, &["--once", "terminal"]);
    let screen = Screen::open(&hosts.server, SIZE);
    let binary = limiter_tests::command::binary();
    screen.run(&format!("TERM=dumb {} top eth0", binary.display()));
    screen.wait_for("status 2");
    assert_eq!(screen.variable("alternate_on"), "0");
    let text = screen.text();
    assert!(text.contains("`limiter top eth0 --once`"), "{text}");
}

//! `limiter top` works on a real terminal, with a flood on a real wire.

/// Returns from a test that needs root and a terminal if one is missing.
macro_rules! need_terminal {
    () => {
        limiter_tests::need_kernel!();
        if !limiter_tests::need::tool("top_live", "tmux") {
            return;
        }
    };
}

mod actions;
mod flood;
mod many;
mod terminal;

use limiter_tests::{hosts::Hosts, number, screen::Screen};

/// The source that sends the most packets.
const FLOODER: &str = "192.0.2.66";

/// Two hosts. The server passes 5 packets per second of each source.
fn limited() -> Hosts {
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 5 --burst 10");
    hosts
}

/// The lines of sources, field by field; the mark of the chosen source is a field.
fn rows(screen: &Screen) -> Vec<Vec<String>> {
    let lines = screen.lines();
    let at = lines.iter().position(|line| line.starts_with("  SOURCE"));
    let lines = at.map_or(&[][..], |at| &lines[at + 1..]);
    let fields = lines
        .iter()
        .take_while(|line| !line.is_empty() && !line.starts_with("q quit"))
        // Skips the line of other sources, which were replaced or sent between two readings.
        .filter(|line| !line.contains("other sources"))
        .map(|line| line.split_whitespace().map(str::to_owned).collect());
    fields.collect()
}

/// The value of a displayed number.
fn shown(text: &str) -> u64 {
    let number = text.replace(',', "").parse();
    number.unwrap_or_else(|_| panic!("no number: {text}"))
}

/// Number of drops of the chosen source, on the first line. The column depends on the size.
fn dropped(screen: &Screen) -> u64 {
    let lines = screen.lines();
    let titles = lines.iter().find(|line| line.starts_with("  SOURCE"));
    let titles = titles.unwrap_or_else(|| panic!("no sources: {lines:#?}"));
    let end = titles.find("DROPPED").unwrap() + "DROPPED".len();
    let row = lines.iter().find(|line| line.starts_with('>'));
    let row = row.unwrap_or_else(|| panic!("no source is chosen: {lines:#?}"));
    shown(row[..end].split_whitespace().last().unwrap())
}

fn is_first(screen: &Screen, source: &str) -> bool {
    rows(screen)
        .first()
        .is_some_and(|row| row[..2] == [">", source])
}

#[test]
fn flood_is_shown_on_a_screen_of_80_by_24() {
    need_terminal!();
    let hosts = limited();
    let flood = flood::start(&hosts);
    let screen = Screen::open(&hosts.server, (80, 24), &[]);
    screen.limiter("top eth0");
    screen.wait("the flooder is first", |screen| is_first(screen, FLOODER));
    let total = || number(&hosts.status()["dropped"]["packets"]);
    let before = dropped(&screen);
    screen.wait("its drops grow", |screen| dropped(screen) > before);
    assert!(dropped(&screen) <= total());
    // The total on the screen is between the totals before and after.
    let of_all = |screen: &Screen| {
        let lines = screen.lines();
        let line = lines.iter().find(|line| line.starts_with("default"));
        shown(line.unwrap().split_whitespace().last().unwrap())
    };
    let before = total();
    screen.wait("the limit's drops", |screen| of_all(screen) >= before);
    let seen = of_all(&screen);
    assert!((before..=total()).contains(&seen), "{before}, {seen}");
    assert_eq!(rows(&screen).len(), 3, "{:?}", rows(&screen));
    drop(flood);
    screen.wait("the flood has ended", |screen| {
        let lines = screen.lines();
        let curve = lines.iter().find(|line| line.starts_with("dropped "));
        curve.is_some_and(|line| line.contains(" 0/s"))
    });
    screen.press("q");
    screen.wait_for("status 0");
}

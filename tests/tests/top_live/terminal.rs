//! The terminal has the shell's settings again after the view, however the view ends.

use std::process::{Command, Stdio};

use limiter_tests::{
    command::{Outcome, prepared},
    hosts::{Hosts, on},
    screen::Screen,
};
use limiter_user::show::top::terminal;
use nix::sys::signal::Signal;

use super::limited;

const SIZE: (u16, u16) = (80, 24);

/// Starts the view on a terminal. Returns the terminal, and its settings before.
fn opened(hosts: &Hosts, variables: &[(&str, &str)]) -> (Screen, String) {
    let screen = Screen::open(&hosts.server, SIZE, variables);
    let state = screen.state();
    screen.limiter("top eth0 --interval 200ms");
    screen.wait_for("q quit");
    assert_eq!(screen.variable("alternate_on"), "1");
    (screen, state)
}

#[test]
fn keys_and_signals_end_the_view() {
    need_terminal!();
    let hosts = limited();
    let (screen, state) = opened(&hosts, &[]);
    let mut first = true;
    let mut after = |end: &dyn Fn(&Screen)| {
        if !std::mem::take(&mut first) {
            screen.limiter("top eth0 --interval 200ms");
            screen.wait_for("q quit");
        }
        end(&screen);
        screen.wait_for("status 0");
        screen.expect_given_back(&state);
    };
    after(&|screen| screen.press("q"));
    after(&|screen| screen.press("C-c"));
    use Signal::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    for signal in [SIGTERM, SIGHUP, SIGINT, SIGQUIT] {
        after(&|screen| screen.signal(signal));
    }
}

#[test]
fn suspended_view_returns_the_terminal_and_continues() {
    need_terminal!();
    let hosts = limited();
    let (screen, state) = opened(&hosts, &[]);
    let suspend: [&dyn Fn(); 2] = [&|| screen.press("C-z"), &|| screen.signal(Signal::SIGTSTP)];
    for suspend in suspend {
        suspend();
        screen.expect_given_back(&state);
        screen.write("clear; fg");
        screen.press("Enter");
        screen.wait("the view is back", |screen| {
            screen.last().starts_with("q quit")
        });
        assert_eq!(screen.variable("alternate_on"), "1");
        // The keys reach the view, and are not echoed.
        screen.press("p");
        screen.wait_for("PAUSED");
        screen.press("p");
    }
    screen.press("q");
    screen.expect_given_back(&state);
}

#[test]
fn view_ends_when_the_interface_vanishes() {
    need_terminal!();
    let hosts = limited();
    let (screen, state) = opened(&hosts, &[]);
    let gone = on(&hosts.server, || {
        Command::new("ip")
            .args(["link", "delete", "eth0"])
            .status()
            .unwrap()
    });
    assert!(gone.success());
    screen.wait_for("status 1");
    let text = screen.text();
    assert!(text.contains("is gone, so nothing is limited"), "{text}");
    screen.expect_given_back(&state);
}

#[test]
fn view_follows_changes_and_ends_on_detach() {
    need_terminal!();
    let hosts = limited();
    let (screen, state) = opened(&hosts, &[]);
    hosts.run("set eth0 --rate 7");
    screen.wait_for("default 7/s, burst 10");
    hosts.run("detach eth0");
    screen.wait_for("status 1");
    let text = screen.text();
    assert!(text.contains("limiter is not attached to 'eth0'"), "{text}");
    screen.expect_given_back(&state);
}

#[test]
fn view_follows_the_terminal_size() {
    need_terminal!();
    let hosts = limited();
    let (screen, state) = opened(&hosts, &[]);
    for (columns, lines) in [(40, 10), (120, 40), (20, 4), (80, 24)] {
        screen.resize((columns, lines));
        screen.wait("the last line is the last", |screen| {
            let seen = screen.lines();
            let (first, last) = (seen.first(), seen.last());
            seen.len() == usize::from(lines)
                && first.is_some_and(|line| line.starts_with("eth0 native"))
                && last.is_some_and(|line| line.starts_with("q quit"))
        });
    }
    screen.press("q");
    screen.wait_for("status 0");
    screen.expect_given_back(&state);
}

/// Environment variable for the test's own program, which the test starts again on a terminal.
const PANIC: &str = "LIMITER_TEST_PANIC";

#[test]
fn panic_restores_the_terminal() {
    if std::env::var_os(PANIC).is_some() {
        let mut screen = terminal::Screen::enter().unwrap();
        screen
            .draw(|frame| frame.render_widget("the view", frame.area()))
            .unwrap();
        panic!("on purpose");
    }
    need_terminal!();
    let hosts = Hosts::new();
    let variables = [(PANIC, "1"), ("RUST_BACKTRACE", "0")];
    let screen = Screen::open(&hosts.server, SIZE, &variables);
    let state = screen.state();
    let own = std::env::current_exe().unwrap();
    let test = "terminal::panic_restores_the_terminal";
    screen.run(&format!("{} --exact {test} --nocapture", own.display()));
    screen.wait_for("status 101");
    let text = screen.text();
    assert!(text.contains("on purpose"), "on the usual screen: {text}");
    assert!(!text.contains("the view"), "{text}");
    screen.expect_given_back(&state);
}

#[test]
fn top_without_a_terminal_names_option_once() {
    need_terminal!();
    let hosts = limited();
    let piped = on(&hosts.server, || {
        let mut top = prepared("top eth0");
        top.stdin(Stdio::null())
            .env("TERM", "xterm")
            .output()
            .unwrap()
    });
    Outcome::of("top".to_owned(), piped).expect_error(2, &["--once", "terminal"]);
    let screen = Screen::open(&hosts.server, SIZE, &[]);
    for term in ["dumb", ""] {
        let binary = limiter_tests::command::binary();
        screen.run(&format!("TERM={term} {} top eth0", binary.display()));
        screen.wait_for("status 2");
        assert_eq!(screen.variable("alternate_on"), "0");
        let text = screen.text();
        assert!(text.contains("`limiter top eth0 --once`"), "{text}");
    }
}

#[test]
fn view_ends_with_its_terminal() {
    need_terminal!();
    let hosts = limited();
    let (screen, _) = opened(&hosts, &[]);
    let process = screen.process();
    drop(screen);
    limiter_tests::eventually("the view has ended", || {
        nix::sys::signal::kill(process, None).is_err()
    });
}

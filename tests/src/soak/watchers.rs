//! Runs `watch`, in sessions that end by themselves or are killed, and the live view.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::{LOCKED, Soak};
use crate::{screen::Screen, watcher::Watcher};

/// Runs sessions of `limiter watch`, one after the other.
pub fn watch(soak: &Soak<'_>) {
    let short = (soak.plan.duration / 30).clamp(Duration::from_secs(1), Duration::from_secs(5));
    let long = (soak.plan.duration / 2).min(Duration::from_secs(120));
    for session in 0_u64.. {
        if !soak.goes_on() {
            return;
        }
        let mut watcher = match Watcher::try_to_start(soak.hosts, &["--json"]) {
            Ok(watcher) => watcher,
            Err(text) => {
                assert!(text.contains(LOCKED), "{text}");
                soak.count("repeat, because others held the lock");
                continue;
            }
        };
        let length = if session % 3 == 2 { long } else { short };
        let until = Instant::now() + length;
        let (mut shown, mut weighed) = (0_u64, Instant::now());
        while soak.goes_on() && Instant::now() < until {
            let Some(line) = watcher.line_if_any() else {
                // The flood has ended during the wait.
                assert!(!soak.goes_on(), "no event came");
                break;
            };
            if shown.is_multiple_of(100) {
                let event: serde_json::Value = serde_json::from_str(&line).unwrap();
                assert_eq!(event["interface"], "eth0");
            }
            shown += 1;
            if weighed.elapsed() >= Duration::from_millis(500) {
                weighed = Instant::now();
                soak.note_memory(&format!("limiter watch #{session}"), watcher.id());
            }
        }
        if session.is_multiple_of(2) {
            let (all, _) = watcher.end().sums();
            assert!(all >= shown, "{shown} shown, {all} reported");
            soak.count("watch, ended");
        } else {
            drop(watcher);
            soak.count("watch, killed");
        }
    }
}

/// Runs the live view on a terminal, if tmux is installed.
pub fn top(soak: &Soak<'_>) {
    if !crate::need::program("the live view during the soak", "tmux") {
        return;
    }
    let screen = Screen::open(&soak.hosts.server, (100, 30));
    screen.limiter("top eth0");
    while !screen.text().contains("q quit") {
        if !soak.goes_on() {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    let process = screen.process();
    while soak.goes_on() {
        soak.note_memory("limiter top", process.as_raw().unsigned_abs());
        screen.press("s");
        soak.count("a key in the live view");
        soak.sleep(Duration::from_secs(1));
    }
    screen.press("q");
    screen.wait_for("status 0");
}

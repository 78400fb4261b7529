//! Reads the attachment again and again: commands, scrapes, `watch`, the live view.

use std::{
    io::Write,
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{
    LOCKED, Soak,
    figures::{self, Figures},
    frames::{heavy, slow},
};
use crate::{exporter::Exporter, number, screen::Screen, watcher::Watcher};

/// Runs queries until the soak ends.
pub fn query(soak: &Soak<'_>) {
    let mut figures = Figures::default();
    let sources: Vec<_> = slow().into_iter().chain(heavy()).collect();
    for source in sources.iter().cycle() {
        if !soak.goes_on() {
            return;
        }
        figures.expect_no_less(soak, || {
            figures::of(&json(soak, "status", "status eth0 --json")["interfaces"][0])
        });
        let check = json(soak, "check", &format!("check eth0 {source} --json"));
        let limits = check["limits"].as_array().unwrap();
        let all = limits.iter().find(|limit| limit["name"] == "all").unwrap();
        if slow().contains(source) {
            assert_eq!(number(&all["dropped_packets"]), 0, "{source}: {check}");
            assert_eq!(all["tracked"], true, "{source}: {check}");
        }
        let top = json(soak, "top", "top eth0 --once --json -n 50");
        let most = top["sources"].as_array().unwrap().len();
        assert!((1..=50).contains(&most), "{top}");
        soak.limiter("config show", &["config", "show", "eth0"]);
        soak.sleep(soak.plan.pause.max(Duration::from_millis(100)));
    }
}

fn json(soak: &Soak<'_>, what: &'static str, line: &str) -> Value {
    let words: Vec<&str> = line.split(' ').collect();
    serde_json::from_str(&soak.limiter(what, &words)).unwrap()
}

/// Scrapes the exporter until the soak ends, and hangs up before some answers.
pub fn scrape(soak: &Soak<'_>, exporter: &Exporter<'_>) {
    let mut figures = Figures::default();
    for page in ["/", "/healthz", "/api/status"].iter().cycle() {
        if !soak.goes_on() {
            return;
        }
        figures.expect_no_less(soak, || {
            let samples = exporter.samples().into_iter();
            let totals = samples.filter(|(name, _)| name.contains("_total{"));
            totals.map(|(name, value)| (name, value as u64)).collect()
        });
        soak.count("scrape");
        let _ = exporter.get(page);
        for request in [
            "GET /metr",
            "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        ] {
            // The exporter may have closed the connection before.
            let _ = exporter.connect().write_all(request.as_bytes());
        }
        soak.count("hang-up");
        soak.sleep(Duration::from_millis(300));
    }
}

/// Runs sessions of `limiter watch`, one after the other. Every second one is killed.
pub fn watch(soak: &Soak<'_>) {
    let length = (soak.plan.duration / 30).clamp(Duration::from_secs(1), Duration::from_secs(5));
    for session in 0_u64.. {
        if !soak.goes_on() {
            return;
        }
        let mut watcher = match Watcher::try_to_start(soak.hosts, &["--json"]) {
            Ok(watcher) => watcher,
            Err(text) => {
                assert!(text.contains(LOCKED), "{text}");
                continue;
            }
        };
        let until = Instant::now() + length;
        let mut shown = 0_u64;
        while soak.goes_on() && Instant::now() < until {
            let Some(line) = watcher.line_if_any() else {
                // The flood has ended during the wait.
                assert!(!soak.goes_on(), "no event came");
                break;
            };
            if shown.is_multiple_of(100) {
                let event: Value = serde_json::from_str(&line).unwrap();
                assert_eq!(event["interface"], "eth0");
            }
            shown += 1;
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

//! Queries the figures again and again.

use std::time::Duration;

use serde_json::Value;

use super::{
    Soak,
    figures::{self, Figures},
    frames::{heavy, slow},
};
use crate::number;

/// Runs queries until the soak ends.
pub fn run(soak: &Soak<'_>) {
    let mut figures = Figures::default();
    let sources: Vec<_> = slow().into_iter().chain(heavy()).collect();
    for source in sources.iter().cycle() {
        if !soak.goes_on() {
            return;
        }
        figures.expect_no_less(soak, || {
            figures::of(&json(soak, "status", &["status", "eth0", "--json"])["interfaces"][0])
        });
        let name = source.to_string();
        let check = json(soak, "check", &["check", "eth0", &name, "--json"]);
        let limits = check["limits"].as_array().unwrap();
        let all = limits.iter().find(|limit| limit["name"] == "all").unwrap();
        if slow().contains(source) {
            assert_eq!(number(&all["dropped_packets"]), 0, "{source}: {check}");
            assert_eq!(all["tracked"], true, "{source}: {check}");
        }
        let top = json(
            soak,
            "top",
            &["top", "eth0", "--once", "--json", "-n", "50"],
        );
        let most = top["sources"].as_array().unwrap().len();
        assert!((1..=50).contains(&most), "{top}");
        soak.limiter("config show", &["config", "show", "eth0"]);
        soak.sleep(soak.plan.pause.max(Duration::from_millis(100)));
    }
}

fn json(soak: &Soak<'_>, what: &'static str, arguments: &[&str]) -> Value {
    serde_json::from_str(&soak.limiter(what, arguments)).unwrap()
}

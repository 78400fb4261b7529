//! Draws random steps, most of which have an effect.

use fastrand::Rng;
use limiter_tests::random::{one, percent};

use super::model::Model;

const NAMES: [&str; 4] = ["dmz", "lan", "vlan.7", "wan"];
const SOURCES: [&str; 6] = [
    "10.0.0.1",
    "10.0.0.2",
    "10.0.1.1",
    "2001:db8::1",
    // This address is in the /64 of the one before.
    "2001:db8::2",
    "2001:db8:0:1::1",
];
const PREFIXES: [&str; 8] = [
    "10.0.0.1",
    "10.0.0.2",
    "10.0.0.0/30",
    "10.0.0.0/24",
    "10.0.1.0/24",
    "2001:db8::1",
    "2001:db8::/64",
    "2001:db8::/32",
];
const RATES: [&str; 6] = ["3/h", "5/h", "60/m", "1/s", "40/s", "1k/s"];
const BURSTS: [&str; 7] = ["1", "2", "3", "5", "8", "13", "40"];
const FILES: [&str; 5] = [
    "one.toml",
    "lists.toml",
    "tiers.toml",
    "shadow.toml",
    "renamed.toml",
];
const OTHER_FILES: [&str; 3] = ["large.toml", "broken.toml", "missing.toml"];
/// Percentage of invalid files.
const UNSOUND: u32 = 15;
/// Maximum number of interfaces.
const DEVICES: u8 = 3;

/// The next step.
pub fn next(rng: &mut Rng, model: &Model) -> String {
    if model.devices.len() < 2 && percent(rng, 50) {
        return create(rng);
    }
    match rng.u32(0..100) {
        0..56 => send(rng, model),
        56..64 => format!("sleep {}", rng.u32(1..=8)),
        64..94 => format!("limiter {}", command(rng, model)),
        _ => device(rng, model),
    }
}

fn file(rng: &mut Rng) -> &'static str {
    if percent(rng, UNSOUND) {
        OTHER_FILES[rng.usize(0..OTHER_FILES.len())]
    } else {
        FILES[rng.usize(0..FILES.len())]
    }
}

fn create(rng: &mut Rng) -> String {
    let (far, index) = (rng.u8(0..DEVICES), rng.u32(10..14));
    format!("create {far} {} {index}", one(rng, &NAMES))
}

fn device(rng: &mut Rng, model: &Model) -> String {
    let far = rng.u8(0..DEVICES);
    if !model.devices.contains_key(&far) && percent(rng, 60) {
        return create(rng);
    }
    match rng.u32(0..8) {
        0 => format!("delete {far}"),
        1 => create(rng),
        _ => format!("rename {far} {}", one(rng, &NAMES)),
    }
}

fn send(rng: &mut Rng, model: &Model) -> String {
    let attached: Vec<u8> = model.attached.values().filter_map(|a| a.device).collect();
    let far = if attached.is_empty() || percent(rng, 5) {
        rng.u8(0..DEVICES)
    } else {
        *one(rng, &attached)
    };
    let count = one(rng, &[1, 1, 2, 3, 5, 9, 20]);
    format!("send {far} {} {count}", one(rng, &SOURCES))
}

/// An interface name, mostly of an interface or an attachment.
fn name(rng: &mut Rng, model: &Model, attached: bool) -> String {
    let known: Vec<String> = model
        .names()
        .into_iter()
        .filter(|name| model.of_name(name).is_some() == attached)
        .collect();
    if known.is_empty() || percent(rng, 12) {
        (*one(rng, &NAMES)).to_owned()
    } else {
        one(rng, &known).clone()
    }
}

fn command(rng: &mut Rng, model: &Model) -> String {
    match rng.u32(0..100) {
        0..18 => attach(rng, model),
        18..26 => {
            let attached = rng.bool();
            let name = name(rng, model, attached);
            format!("attach {name} --config {} --or-reload", file(rng))
        }
        26..38 => set(rng, model),
        38..46 => reload(rng, model),
        46..66 => edit(rng, model),
        66..75 => {
            let name = name(rng, model, true);
            let source = if percent(rng, 30) {
                "--all"
            } else {
                *one(rng, &SOURCES)
            };
            format!("reset {name} {source}")
        }
        75..82 => {
            let attached = percent(rng, 45);
            if percent(rng, 5) {
                return "detach --all".to_owned();
            }
            format!("detach {}", name(rng, model, attached))
        }
        82..90 => match rng.bool() {
            true => "status --json".to_owned(),
            false => format!("status {} --json", name(rng, model, true)),
        },
        90..96 => {
            let name = name(rng, model, true);
            format!("check {name} {} --json", one(rng, &SOURCES))
        }
        _ => {
            let list = one(rng, &["allow", "deny"]);
            format!("{list} list {} --json", name(rng, model, true))
        }
    }
}

fn attach(rng: &mut Rng, model: &Model) -> String {
    let mut line = format!("attach {}", name(rng, model, false));
    // Mostly interfaces without an attachment.
    let bare = model.devices.values();
    let bare: Vec<_> = bare.filter(|name| model.of_name(name).is_none()).collect();
    if !bare.is_empty() && percent(rng, 60) {
        line = format!("attach {}", one(rng, &bare));
    }
    if percent(rng, 20) {
        let second = name(rng, model, false);
        if !line.ends_with(&second) {
            line = format!("{line} {second}");
        }
    }
    if percent(rng, 40) {
        return format!("{line} --config {}", file(rng));
    }
    line = format!("{line} --max-sources 256 --rate {}", one(rng, &RATES));
    match rng.u32(0..12) {
        0..10 => line = format!("{line} --burst {}", one(rng, &BURSTS)),
        10 => line.push_str(" --burst 1kb"),
        _ => {}
    }
    for flag in ["--allow", "--deny"] {
        if percent(rng, 30) {
            line = format!("{line} {flag} {}", one(rng, &PREFIXES));
        }
    }
    if percent(rng, 15) {
        line.push_str(" --shadow");
    }
    line
}

fn set(rng: &mut Rng, model: &Model) -> String {
    let name = name(rng, model, true);
    let found = model
        .of_name(&name)
        .map(|found| &model.attached[found].config.limits);
    let several = found.is_some_and(|limits| limits.len() > 1);
    let mut line = format!("set {name}");
    if percent(rng, if several { 85 } else { 10 }) {
        line = format!("{line} --limit {}", one(rng, &["default", "own", "own"]));
    }
    match rng.u32(0..12) {
        0..4 => format!("{line} --rate {}", one(rng, &RATES)),
        4..8 => format!("{line} --burst {}", one(rng, &BURSTS)),
        8 => format!(
            "{line} --rate {} --burst {}",
            one(rng, &RATES),
            one(rng, &BURSTS)
        ),
        9 => one(
            rng,
            &[
                format!("{line} --rate 5/h --burst 1kb"),
                format!("{line} --burst 1kb"),
            ],
        )
        .clone(),
        _ => format!("{line} --shadow {}", one(rng, &["on", "off"])),
    }
}

fn reload(rng: &mut Rng, model: &Model) -> String {
    let name = name(rng, model, true);
    if percent(rng, 30) {
        format!("reload {name}")
    } else {
        format!("reload {name} --config {}", file(rng))
    }
}

fn edit(rng: &mut Rng, model: &Model) -> String {
    let name = name(rng, model, true);
    let found = model
        .of_name(&name)
        .map(|found| &model.attached[found].config.lists);
    let lists: Vec<&str> = match found {
        Some(lists) if percent(rng, 90) => lists.keys().map(String::as_str).collect(),
        _ => vec!["allow", "deny", "own"],
    };
    let list = *one(rng, &lists);
    let on_it = found
        .and_then(|lists| lists.get(list))
        .into_iter()
        .flatten();
    let on_it: Vec<String> = on_it.map(ToString::to_string).collect();
    // Nothing can be removed from an empty list.
    let chances = if on_it.is_empty() { 8 } else { 14 };
    let edit = match rng.u32(0..chances) {
        0..6 => "add",
        6 => "replace",
        _ => "remove",
    };
    let mut line = match list {
        "own" => format!("tier {edit} {name} own"),
        list => format!("{list} {edit} {name}"),
    };
    if edit == "remove" && !on_it.is_empty() && percent(rng, 80) {
        return format!("{line} {}", one(rng, &on_it));
    }
    if percent(rng, 5) {
        line.push_str(" 10.0.0.1/24");
    }
    for _ in 0..rng.u32(1..=2) {
        line = format!("{line} {}", one(rng, &PREFIXES));
    }
    line
}

//! The page stays useful while it refreshes: what is selected, what the exporter keeps, and what is old.

use std::{fs, thread, time::Duration};

use limiter_tests::{
    browser::Browser, command::ip, eventually, exporter::Exporter, hosts::Hosts, need_kernel,
    need_program, traffic::Traffic,
};
use serde_json::{Value, json};

use super::page::{cell, flood, open, part};

const FILE: &str = "interfaces = ['eth0']\n\
    [[limit]]\nname = 'per-source'\nrate = '10/s'\nburst = 20\nhold = '1h'\n";

/// Reverses the sources and lets their figures grow in each answer of the exporter.
const STIR: &str = "{ const ask = window.fetch; let times = 0;
    window.fetch = async (path) => {
        const answer = await ask(path);
        if (path.endsWith('history')) return answer;
        const value = await answer.json();
        times += 1;
        for (const source of value.tops[0].sources) source.passed_packets = 1_000 * times;
        if (times % 2) value.tops[0].sources.reverse();
        return new Response(JSON.stringify(value));
    }; }";

#[test]
fn selected_address_stays_selected_and_can_be_copied() {
    need_kernel!();
    need_program!("chromium-headless-shell");
    let hosts = Hosts::new();
    hosts.attach_file(FILE);
    let traffic = Traffic::new(&hosts);
    for (source, packets) in [
        ("203.0.113.7", 40),
        ("203.0.113.8", 30),
        ("203.0.113.9", 25),
    ] {
        traffic.passed(source, packets);
    }
    let exporter = Exporter::start(&hosts.server);
    let mut browser = Browser::start(&hosts.server);
    browser.call(
        "Page.addScriptToEvaluateOnNewDocument",
        json!({"source": STIR}),
    );
    open(&mut browser, &exporter);
    let first = "document.querySelector('[data-is=top] td').textContent";
    let passed = cell("top", "203.0.113.8", "Passed");
    browser.wait_for(&format!("{passed} !== null"));
    // Sources move while nothing is selected.
    let before = browser.evaluate(first);
    browser.wait_for(&format!("{first} !== {before}"));
    browser.evaluate(
        "(() => { const cells = [...document.querySelectorAll('[data-is=top] td')];
           const address = cells.find((cell) => cell.textContent === '203.0.113.8');
           getSelection().selectAllChildren(address);
           window.selected = address; window.top = document.querySelector('[data-is=top]').firstChild;
           document.addEventListener('copy', () => { window.copied = getSelection().toString(); }); })()",
    );
    // Other figures of the row go on.
    for _ in 0..3 {
        let now = browser.evaluate(&passed);
        browser.wait_for(&format!("{passed} !== {now}"));
    }
    assert_eq!(browser.evaluate("getSelection().toString()"), "203.0.113.8");
    assert_eq!(browser.evaluate("window.selected.isConnected"), true);
    let copy = json!({"expression": "document.execCommand('copy')", "userGesture": true});
    browser.call("Runtime.evaluate", copy);
    assert_eq!(browser.evaluate("window.copied"), "203.0.113.8");
    let state = "document.querySelector('#state').textContent";
    assert_eq!(browser.evaluate(state), "live; selected text stands still");
    let still = browser.evaluate(first);
    thread::sleep(Duration::from_secs(3));
    assert_eq!(browser.evaluate(first), still, "rows moved");
    browser.evaluate("getSelection().removeAllRanges()");
    browser.wait_for(&format!("{first} !== {still}"));
    browser.wait_for(&format!("{state} === 'live'"));
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn page_shows_rates_bytes_bans_holds_and_the_host() {
    need_kernel!();
    need_program!("chromium-headless-shell");
    let hosts = Hosts::new();
    hosts.attach_file(FILE);
    hosts.run("ban eth0 203.0.113.88");
    hosts.run("ban eth0 203.0.113.89 --origin jail");
    let exporter = Exporter::start(&hosts.server);
    let mut browser = Browser::start(&hosts.server);
    open(&mut browser, &exporter);
    let flood = flood(&hosts);
    // The source with half of the flood: 800 packets per second, of 42 bytes and more.
    let rate = cell("top", "203.0.113.7", "Dropped/s");
    let number = |text: &str| format!("Number.parseFloat({text}?.replace(',', ''))");
    browser.wait_for(&format!("{} > 100 && {rate}.endsWith('/s')", number(&rate)));
    let passed = cell("top", "203.0.113.7", "Passed/s");
    browser.wait_for(&format!("{passed} === '0/s'"));
    let held = cell("top", "203.0.113.7", "Held");
    browser.wait_for(&format!("/^3,[0-9]{{3}}[.][0-9] s$/.test({held})"));
    let bits = part("dropped-bits");
    browser.wait_for(&format!("/^[1-9][0-9.]* [kM]bit.s$/.test({bits})"));
    for place in [
        cell("limits", "per-source", "Dropped bytes"),
        cell("limits", "per-source", "Passed bytes"),
    ] {
        browser.wait_for(&format!("/^[1-9][0-9.]* [kM]?B$/.test({place})"));
    }
    let drops = "[...document.querySelectorAll('.reasons tr')].find((row) => row.cells[0].textContent === 'limit').cells[2].textContent";
    browser.wait_for(&format!("/^[1-9][0-9.]* [kM]B$/.test({drops})"));
    assert_eq!(browser.evaluate(&cell("bans", "bans by hand", "")), "1");
    assert_eq!(browser.evaluate(&cell("bans", "bans of jail", "")), "1");
    let held = cell("bans", "held by per-source", "");
    browser.wait_for(&format!("{held} === '5'"));
    drop(flood);
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let host = host.trim();
    assert_eq!(
        browser.evaluate("document.querySelector('#host').textContent"),
        host
    );
    assert_eq!(
        browser.evaluate("document.title"),
        format!("{host}: limiter")
    );
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn page_has_an_index_of_several_interfaces() {
    need_kernel!();
    need_program!("chromium-headless-shell");
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 10/s");
    let exporter = Exporter::start(&hosts.server);
    let mut browser = Browser::start(&hosts.server);
    open(&mut browser, &exporter);
    let visible = "document.querySelector('nav').checkVisibility()";
    assert_eq!(browser.evaluate(visible), false);
    let link = "link add name more.1 type veth peer name more.2";
    ip(&hosts.server.namespace, link);
    hosts.run("attach more.1 --rate 10/s");
    browser.wait_for(visible);
    let names = "[...document.querySelectorAll('#index a')].map((link) => link.textContent)";
    assert_eq!(browser.evaluate(names), json!(["eth0", "more.1"]));
    let rates = "[...document.querySelectorAll('#index span')].every((rate) => /^dropped [0-9]+.s$/.test(rate.textContent))";
    browser.wait_for(rates);
    browser.evaluate("document.querySelectorAll('#index a')[1].click()");
    browser
        .wait_for("document.querySelector(':target h2 [data-is=name]').textContent === 'more.1'");
    hosts.run("detach eth0");
    browser.wait_for(&format!("!{visible}"));
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn figures_turn_grey_while_the_exporter_is_gone() {
    need_kernel!();
    need_program!("chromium-headless-shell");
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 10/s");
    let exporter = Exporter::start(&hosts.server);
    let address = exporter.address.to_string();
    let mut browser = Browser::start(&hosts.server);
    open(&mut browser, &exporter);
    let filter = "getComputedStyle(document.querySelector('main')).filter";
    assert_eq!(browser.evaluate(filter), "none");
    drop(exporter);
    browser.wait_for(&format!("{filter} === 'grayscale(1)'"));
    let state = "document.querySelector('#state').textContent";
    let text = browser.evaluate(state).as_str().unwrap().to_owned();
    assert!(text.starts_with("no answer since"), "{text}");
    assert_eq!(browser.evaluate(&part("name")), "eth0");
    let _again = Exporter::start_at(&hosts.server, &address);
    browser.wait_for(&format!("{filter} === 'none' && {state} === 'live'"));
}

#[test]
fn last_hours_are_there_for_a_page_that_has_just_been_opened() {
    need_kernel!();
    need_program!("chromium-headless-shell");
    let hosts = Hosts::new();
    hosts.attach_file(FILE);
    let exporter = Exporter::start(&hosts.server);
    let flood = flood(&hosts);
    let dropped = || {
        let history = exporter.json("/api/history");
        let rates = history["interfaces"][0]["dropped"].as_array().cloned();
        rates.unwrap_or_default()
    };
    let known = |rates: Vec<Value>| rates.iter().filter_map(Value::as_f64).collect::<Vec<_>>();
    eventually("three points", || known(dropped()).len() >= 3);
    let mut browser = Browser::start(&hosts.server);
    open(&mut browser, &exporter);
    let points = |chart: &str| {
        format!(
            "document.querySelector('[data-is={chart}] .line.dropped').getAttribute('d').split('L').length"
        )
    };
    browser.wait_for(&format!("{} >= 3", points("hours")));
    assert!(browser.evaluate(&points("minutes")).as_u64().unwrap() < 8);
    drop(flood);
    // No point has packets that were not dropped: each is a mean over ten seconds.
    let sum: f64 = known(dropped()).iter().map(|rate| 10.0 * rate).sum();
    let counted = hosts.status()["dropped"]["packets"].as_f64().unwrap();
    assert!(sum > 1_000.0 && sum < 1.2 * counted, "{sum}, {counted}");
    assert_eq!(browser.complaints, Vec::<String>::new());
}

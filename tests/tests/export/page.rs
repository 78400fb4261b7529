//! The page works in a real browser: it shows the figures, updates itself, loads nothing from elsewhere, and fits all
//! widths.

use std::{thread, time::Duration};

use limiter_tests::{
    browser::{Browser, PROGRAM},
    eventually,
    exporter::Exporter,
    hosts::Hosts,
    need, need_kernel,
    raw::Raw,
    traffic::{Flood, udp},
};
use serde_json::{Value, json};

/// Environment variable with the folder for the page's pictures, which the documents use.
const PICTURES: &str = "LIMITER_PICTURES";

/// Opens the exporter's page in a browser on the server.
pub fn open(browser: &mut Browser, exporter: &Exporter<'_>) {
    browser.look_like(1000, 900, "light");
    browser.open(&format!("http://{}/", exporter.address));
    browser.wait_for("document.querySelector('#state')?.textContent === 'live'");
}

/// Floods from five sources at different rates: about 1,600 packets per second.
pub fn flood(hosts: &Hosts) -> Flood {
    let rates = [(7, 8), (66, 4), (100, 2), (101, 1), (102, 1)];
    let frames = rates.into_iter().flat_map(|(host, times)| {
        let source = std::net::Ipv4Addr::new(203, 0, 113, host);
        vec![udp(hosts, source.into(), 9); times]
    });
    Flood::start(hosts, frames.collect(), Duration::from_millis(10))
}

fn pictures(browser: &mut Browser) {
    let Some(folder) = std::env::var_os(PICTURES) else {
        return;
    };
    thread::sleep(Duration::from_secs(60));
    for (name, width, theme) in [
        ("page-light", 1000, "light"),
        ("page-dark", 1000, "dark"),
        ("page-phone", 390, "light"),
    ] {
        browser.look_like(width, 900, theme);
        let file = std::path::Path::new(&folder).join(format!("{name}.png"));
        browser.picture(&file);
    }
}

/// The text of the part `name` of the page.
pub fn part(name: &str) -> String {
    format!("document.querySelector('[data-is={name}]').textContent")
}

/// The number in the row `first` and the column `heading` of a table, if visible.
pub fn cell(table: &str, first: &str, heading: &str) -> String {
    format!(
        "(() => {{ const cells = [...document.querySelectorAll('.{table} tr')].map((row) => [...row.cells]) \
           .find((cells) => cells[0]?.textContent === '{first}') ?? []; \
           const headings = [...document.querySelectorAll('.{table} th')].map((heading) => heading.textContent); \
           const cell = cells['{heading}' ? headings.indexOf('{heading}') : 1]; \
           return cell?.checkVisibility() ? cell.textContent : null; }})()"
    )
}

#[test]
fn page_shows_a_flood_and_loads_nothing_from_other_servers() {
    need_kernel!();
    if !need::program("page_shows_a_flood", PROGRAM) {
        return;
    }
    let hosts = Hosts::new();
    hosts.attach_file(
        "interfaces = ['eth0']\n[[limit]]\nname = 'per-source'\nrate = '100/s'\nburst = 200\n\
         [[limit]]\nname = 'all'\nrate = '1/h'\nburst = 4\nshadow = true\n",
    );
    let exporter = Exporter::start(&hosts.server);
    let mut browser = Browser::start(&hosts.server);
    open(&mut browser, &exporter);
    assert_eq!(browser.evaluate(&part("name")), "eth0");
    assert_eq!(browser.evaluate(&part("mode")), "native");
    browser.wait_for(&format!("{} === '0/s'", part("dropped-rate")));
    let shadow = [
        cell("limits", "all (shadow)", "Would drop"),
        cell("top", "203.0.113.101", "Would drop"),
        cell("reasons", "would drop (shadow)", ""),
    ];
    for place in &shadow {
        assert_eq!(browser.evaluate(place), Value::Null, "{place}");
    }
    let flood = flood(&hosts);
    // The line leaves the bottom, and grows by a point each second.
    let line = "document.querySelector('[data-is=minutes] .line.dropped').getAttribute('d')";
    let highest = format!("[...{line}.matchAll(/ ([0-9.]+)/g)].map((found) => Number(found[1]))");
    browser.wait_for(&format!("Math.min(...{highest}) < 70"));
    browser.wait_for(&format!("{line}.split('L').length >= 5"));
    let rate = part("dropped-rate");
    browser.wait_for(&format!("/^[1-9][0-9.,]*K?\\/s$/.test({rate})"));
    browser.wait_for("document.querySelector('[data-is=top] td').textContent === '203.0.113.7'");
    for place in &shadow {
        browser.wait_for(&format!("Number(({place} ?? '').replaceAll(',', '')) > 0"));
    }
    pictures(&mut browser);
    drop(flood);
    expect_nothing_from_elsewhere(&mut browser);

    // The page reports the end of the attachment, and then the end of the exporter.
    hosts.run("detach eth0");
    browser.wait_for(
        "!document.querySelector('#nothing').hidden && !document.querySelector('section')",
    );
    drop(exporter);
    browser.wait_for("document.querySelector('#state').textContent.startsWith('no answer since')");
}

fn expect_nothing_from_elsewhere(browser: &mut Browser) {
    let elsewhere = "performance.getEntriesByType('resource').map((e) => e.name).filter((name) => !name.startsWith(location.origin))";
    assert_eq!(browser.evaluate(elsewhere), json!([]));
    assert_eq!(browser.complaints, Vec::<String>::new());
    // The policy works: text is never markup, and the browser reports a request to another server.
    let inject = "new Promise((done) => { const s = document.createElement('div'); \
                  try { s.innerHTML = '<b>'; done('markup'); } catch (e) { done(e.name); } })";
    assert_eq!(browser.evaluate(inject), "TypeError");
    browser.evaluate("fetch('http://192.0.2.2/').then(() => 'reached', (e) => e.name)");
    let complaints = &browser.complaints;
    let reported = complaints
        .iter()
        .any(|text| text.contains("Content Security Policy"));
    assert!(reported, "{complaints:?}");
}

/// A script that finds texts and boxes that overflow the box around them, and boxes that scroll sideways.
const OVERFLOWING: &str = r"
    (() => {
        const found = new Set();
        const name = (element) => `${element.tagName} ${element.className}: ${element.textContent.trim().slice(0, 60)}`;
        const sticksOut = (box, around) => box.left < around.left - 0.5 || box.right > around.right + 0.5;
        const boxes = (node) => {
            if (node instanceof Element) return [node.getBoundingClientRect()];
            const range = document.createRange();
            range.selectNode(node);
            return [...range.getClientRects()];
        };
        const root = document.documentElement;
        if (root.scrollWidth > root.clientWidth) found.add(`the document is ${root.scrollWidth} px wide`);
        for (const element of document.querySelectorAll('body, body *:not(svg, svg *)')) {
            if (!element.checkVisibility()) continue;
            const inline = getComputedStyle(element).display === 'inline';
            if (!inline && element.scrollWidth > element.clientWidth + 1) found.add(`scrolls: ${name(element)}`);
            const around = element.getBoundingClientRect();
            for (const child of element.childNodes)
                if (boxes(child).some((box) => box.width > 0 && sticksOut(box, around)))
                    found.add(`sticks out: ${name(child instanceof Element ? child : element)}`);
        }
        return [...found];
    })()
";

/// Sets large numbers.
fn enlarge(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_u64() => *value = json!(987_654_321_098_765_u64),
        Value::Number(_) => *value = json!(98_765_432_109.8),
        Value::Array(values) => values.iter_mut().for_each(enlarge),
        Value::Object(fields) => fields.values_mut().for_each(enlarge),
        _ => {}
    }
}

/// An answer with large numbers, long names, and everything that the page shows only at times.
fn enlarged(mut status: Value) -> Value {
    enlarge(&mut status);
    let name = "enp193s0f1np1.4";
    status["tops"][0]["interface"] = json!(name);
    let interface = &mut status["interfaces"][0];
    interface["name"] = json!(name);
    interface["try_until"] = json!("2026-11-22T03:00:00Z");
    interface["fallback"] =
        json!("the driver has an-unusually-long-name-of-a-driver-or-of-an-error");
    interface["bans"]["by_origin"] =
        json!({"hand": 1_048_576, "crowdsec-of-the-whole-company": 65_536});
    interface["sources"]["tracked"] = json!(1_048_576);
    interface["sources"]["entries"] = interface["sources"]["capacity"].clone();
    status["host"] = json!("gameserver-frankfurt-12.production.example.com");
    let mut second = status["interfaces"][0].clone();
    second["name"] = json!("enp193s0f1np1.5");
    status["interfaces"].as_array_mut().unwrap().push(second);
    let mut top = status["tops"][0].clone();
    top["interface"] = json!("enp193s0f1np1.5");
    status["tops"].as_array_mut().unwrap().push(top);
    status["errors"] = json!([format!("/sys/fs/bpf/limiter/{}: not ours", "x".repeat(120))]);
    status
}

/// Makes the page read this answer instead of the exporter's. The counters grow from one answer to the next.
fn answer_with(browser: &mut Browser, answer: &Value) {
    let source = format!(
        "{{ const answer = {answer}; answer.read_at_ms = 0;
            const all = Array(720).fill(98_765_432_109.8);
            const history = {{ read_at_ms: 7_200_000, step_ms: 10_000, interfaces:
                answer.interfaces.map(({{ name }}) => ({{ name, passed: all, dropped: all, would_drop: all }})) }};
            window.fetch = async (path) => {{
                if (path.endsWith('history')) return new Response(JSON.stringify(history));
                answer.read_at_ms += 1_000;
                for (const attachment of answer.interfaces)
                    for (const verdict of ['seen', 'passed', 'dropped', 'would_drop']) attachment[verdict].packets += 123_456_789;
                return new Response(JSON.stringify(answer));
            }};
        }}"
    );
    let script = json!({"source": source});
    browser.call("Page.addScriptToEvaluateOnNewDocument", script);
}

#[test]
fn page_does_not_overflow_at_any_width() {
    need_kernel!();
    if !need::program("page_does_not_overflow_at_any_width", PROGRAM) {
        return;
    }
    let hosts = Hosts::of_both_families();
    hosts.attach_file(
        "interfaces = ['eth0']\nshadow = true\n[[limit]]\nname = 'clients-of-the-game.and-lobby-12'\n\
         rate = '1500000/s'\nburst = 123456\nkey = '/32,/128,destination_port'\n\
         [[limit]]\nname = 'dns'\nrate = '20/s'\nburst = 40\nhold = '1h'\nshadow = true\n",
    );
    let exporter = Exporter::start(&hosts.server);
    // Packets of the kernel, such as neighbour discovery, may come between: the test does not count them.
    let wire = Raw::open(&hosts.client);
    for (last, port) in [(8, 65_535), (9, 9)] {
        let source = format!("2001:db8:1234:5678:9abc:def0:1234:567{last}");
        wire.send(&udp(&hosts, source.parse().unwrap(), port));
    }
    let status = || exporter.json("/api/status");
    let sources = || {
        status()["tops"][0]["sources"]
            .as_array()
            .map_or(0, Vec::len)
    };
    eventually("both sources are shown", || sources() >= 3);
    let mut browser = Browser::start(&hosts.server);
    answer_with(&mut browser, &enlarged(status()));
    open(&mut browser, &exporter);
    browser.wait_for(&format!("{} !== '–'", part("dropped-rate")));
    let mut overflowing = Vec::new();
    for width in [320, 360, 600, 800, 900, 1000, 1265, 1920] {
        browser.look_like(width, 900, "light");
        let found: Vec<String> = serde_json::from_value(browser.evaluate(OVERFLOWING)).unwrap();
        overflowing.extend(found.iter().map(|element| format!("{width} px: {element}")));
    }
    assert_eq!(overflowing, Vec::<String>::new());
    assert_eq!(browser.complaints, Vec::<String>::new());
}

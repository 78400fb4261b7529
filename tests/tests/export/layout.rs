//! On the page, no text leaves its box and no box leaves its card, at the widths of phones, tablets and screens.

use limiter_tests::{
    browser::{Browser, PROGRAM},
    eventually,
    exporter::Exporter,
    hosts::Hosts,
    need, need_kernel,
    raw::Raw,
    traffic::udp,
};
use serde_json::{Value, json};

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

/// Sets large numbers, and everything that the page shows only at times.
fn enlarge(value: &mut Value) {
    const LARGE: u64 = 987_654_321_098_765;
    match value {
        Value::Number(number) if number.is_u64() => *value = json!(LARGE),
        Value::Number(_) => *value = json!(98_765_432_109.8),
        Value::Array(values) => values.iter_mut().for_each(enlarge),
        Value::Object(fields) => fields.values_mut().for_each(enlarge),
        _ => {}
    }
}

fn enlarged_status(mut status: Value) -> Value {
    enlarge(&mut status);
    let interface = &mut status["interfaces"][0];
    interface["try_until"] = json!("2026-11-22T03:00:00Z");
    interface["fallback"] =
        json!("the driver has an-unusually-long-name-of-a-driver-or-of-an-error");
    interface["sources"]["tracked"] = json!(1_048_576);
    interface["sources"]["entries"] = interface["sources"]["capacity"].clone();
    status["errors"] = json!([format!("/sys/fs/bpf/limiter/{}: not ours", "x".repeat(120))]);
    status
}

/// Makes the page read these answers, by path, instead of the exporter's answers. The counters grow from one answer to
/// the next.
fn answer_with(browser: &mut Browser, answers: &Value) {
    let source = format!(
        "{{ const answers = {answers}; let at = 7_200_000;
            window.fetch = async (path) => {{
                at += 1_000;
                for (const attachment of answers['api/status'].interfaces)
                    for (const verdict of ['seen', 'passed', 'dropped', 'would_drop']) attachment[verdict].packets += 123_456_789;
                const headers = {{ 'limiter-read-at-ms': String(at) }};
                return path in answers ? new Response(JSON.stringify(answers[path]), {{ headers }})
                    : new Response('', {{ status: 404 }});
            }};
        }}"
    );
    browser.call(
        "Page.addScriptToEvaluateOnNewDocument",
        json!({"source": source}),
    );
}

#[test]
fn page_does_not_overflow_at_any_width() {
    need_kernel!();
    if !need::program("page_does_not_overflow_at_any_width", PROGRAM) {
        return;
    }
    let hosts = Hosts::of_both_families();
    let long = "clients-of-the-game.and-lobby-12";
    hosts.attach_file(&format!(
        "interfaces = ['eth0']\nshadow = true\n[[limit]]\nname = '{long}'\nrate = '1500000/s'\nburst = 123456\n\
         key = '/32,/128,destination_port'\n[[limit]]\nname = 'dns'\nrate = '20/s'\nburst = 40\nshadow = true\n"
    ));
    let exporter = Exporter::start(&hosts.server);
    let wire = Raw::open(&hosts.client);
    let source = "2001:db8:1234:5678:9abc:def0:1234:5678".parse().unwrap();
    let other = "2001:db8:1234:5678:9abc:def0:1234:5679".parse().unwrap();
    for (source, port) in [(source, 65_535), (other, 9)] {
        wire.send(&udp(&hosts, source, port));
    }
    let top = || exporter.json("/api/top/eth0");
    eventually("both sources are shown", || {
        top()["sources"].as_array().unwrap().len() >= 3
    });
    let (mut status, mut top) = (enlarged_status(exporter.json("/api/status")), top());
    enlarge(&mut top);
    let name = "enp193s0f1np1.4";
    status["interfaces"][0]["name"] = json!(name);
    let mut answers = json!({"api/status": status});
    answers[format!("api/top/{name}")] = top;
    let rates = vec![123_456_789; 720];
    answers[format!("api/history/{name}")] = json!({
        "read_at_ms": (0..720).map(|point| point * 10_000).collect::<Vec<_>>(),
        "passed_packets_per_second": rates,
        "dropped_packets_per_second": rates,
        "would_drop_packets_per_second": rates,
    });

    let mut browser = Browser::start(&hosts.server);
    answer_with(&mut browser, &answers);
    browser.open(&format!("http://{}/", exporter.address));
    browser.wait_for("document.querySelector('#state')?.textContent === 'live'");
    browser.wait_for("document.querySelector('[data-is=dropped-rate]').textContent !== '–'");
    let mut overflowing = Vec::new();
    for width in [320, 360, 600, 800, 900, 1000, 1265, 1920] {
        browser.look_like(width, 900, "light");
        let found: Vec<String> = serde_json::from_value(browser.evaluate(OVERFLOWING)).unwrap();
        overflowing.extend(found.iter().map(|what| format!("{width} px: {what}")));
        super::page::picture(&mut browser, &format!("layout-{width}.png"));
    }
    assert_eq!(overflowing, Vec::<String>::new());
    assert_eq!(browser.complaints, Vec::<String>::new());
}

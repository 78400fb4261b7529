//! The page works in a real browser: it shows the figures, updates itself and has no errors.

use std::{
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use limiter_tests::{
    browser::{Browser, PROGRAM},
    exporter::Exporter,
    hosts::Hosts,
    need, need_kernel,
    raw::Raw,
    traffic::udp,
};

/// Environment variable with the folder for the page's pictures, which the documents use.
const PICTURES: &str = "LIMITER_PICTURES";

/// Floods from some sources while `work` runs: about 2,000 packets per second, most of them over the limit.
fn under_flood(hosts: &Hosts, work: impl FnOnce()) {
    let frames: Vec<_> = [(7, 8), (66, 4), (100, 2), (101, 1), (102, 1)]
        .into_iter()
        .flat_map(|(host, times)| {
            let source = std::net::Ipv4Addr::new(203, 0, 113, host);
            vec![udp(hosts, source.into(), 9); times]
        })
        .collect();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let wire = Raw::open(&hosts.client);
            // The flood lasts at most a minute.
            for round in 0..6_000_u64 {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                // The rate changes, so that the chart has a shape.
                let times = 1 + (round / 60) % 4;
                (0..times).for_each(|_| frames.iter().for_each(|frame| wire.send(frame)));
                thread::sleep(Duration::from_millis(10));
            }
        });
        // The flood ends even if `work` panics.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        over.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

pub fn picture(browser: &mut Browser, name: &str) {
    let Some(folder) = std::env::var_os(PICTURES) else {
        return;
    };
    let file = std::path::Path::new(&folder).join(name);
    let mut decode = Command::new("base64");
    decode.arg("--decode").stdin(Stdio::piped());
    decode.stdout(std::fs::File::create(file).unwrap());
    let mut decoding = decode.spawn().unwrap();
    let text = browser.picture();
    std::io::Write::write_all(&mut decoding.stdin.take().unwrap(), text.as_bytes()).unwrap();
    assert!(decoding.wait().unwrap().success());
}

/// The first number in the text of a part of the page.
fn figure(browser: &mut Browser, part: &str) -> String {
    let text = browser.evaluate(&format!(
        "document.querySelector('[data-is={part}]').textContent"
    ));
    text.as_str().unwrap().to_owned()
}

#[test]
fn page_updates_under_flood() {
    need_kernel!();
    if !need::program("page_updates_under_flood", PROGRAM) {
        return;
    }
    let hosts = Hosts::new();
    hosts.attach_file(
        "interfaces = ['eth0']\n\
         [[limit]]\nname = 'per-source'\nrate = '100/s'\nburst = 200\n\
         [[limit]]\nname = 'dns'\nmatch = { protocol = 'udp', destination_port = 53 }\nrate = '20/s'\nburst = 40\n",
    );
    let exporter = Exporter::start(&hosts.server);
    let mut browser = Browser::start(&hosts.server);
    browser.look_like(1000, 900, "light");
    browser.open(&format!("http://{}/", exporter.address));
    browser.wait_for("document.querySelector('#state')?.textContent === 'live'");
    assert_eq!(figure(&mut browser, "name"), "eth0");
    assert_eq!(figure(&mut browser, "mode"), "native");
    // Without traffic, the drop rate is zero.
    browser.wait_for("document.querySelector('[data-is=dropped-rate]').textContent === '0/s'");
    let line = "document.querySelector('[data-is=minutes] .line.dropped').getAttribute('d')";
    browser.wait_for(&format!("{line}.includes('100.00')"));
    let highest = format!(
        "Math.min(...[...{line}.matchAll(/ ([0-9.]+)/g)].map((found) => Number(found[1])))"
    );
    assert_eq!(browser.evaluate(&highest), 100.0);

    under_flood(&hosts, || {
        browser.wait_for(
            "/^[0-9.,]+K?\\/s$/.test(document.querySelector('[data-is=dropped-rate]').textContent) \
             && document.querySelector('[data-is=dropped-rate]').textContent !== '0/s'",
        );
        browser.wait_for(&format!("{highest} < 70"));
        browser
            .wait_for("document.querySelector('[data-is=top] td').textContent === '203.0.113.7'");
        assert_eq!(
            browser.evaluate("document.querySelectorAll('[data-is=top] tr').length"),
            5
        );
        assert_eq!(
            browser.evaluate("document.querySelectorAll('[data-is=limits] tr').length"),
            2
        );
        // The line grows by a point each second.
        let points = format!("{line}.split('L').length");
        let before = browser.evaluate(&points).as_u64().unwrap();
        browser.wait_for(&format!("{points} >= {before} + 3"));
        if std::env::var_os(PICTURES).is_some() {
            thread::sleep(Duration::from_secs(30));
        }
        // Nothing overflows at the width of a phone, in both themes.
        for (width, height, theme) in [
            (1000, 900, "light"),
            (1000, 900, "dark"),
            (390, 844, "light"),
            (390, 844, "dark"),
        ] {
            browser.look_like(width, height, theme);
            let overflow =
                "document.documentElement.scrollWidth - document.documentElement.clientWidth";
            assert_eq!(browser.evaluate(overflow), 0, "{width} {theme}");
            assert_eq!(
                readable(&mut browser),
                Vec::<String>::new(),
                "{width} {theme}"
            );
            picture(&mut browser, &format!("page-{width}-{theme}.png"));
        }
    });

    // The page reports the end of the attachment, and then the end of the exporter.
    hosts.run("detach eth0");
    browser.wait_for(
        "!document.querySelector('#nothing').hidden && !document.querySelector('section')",
    );
    assert_eq!(browser.complaints, Vec::<String>::new());
    drop(exporter);
    browser.wait_for("document.querySelector('#state').textContent.startsWith('no answer since')");
}

/// The number in the row `first` and the column `heading` of a table, if visible.
fn cell(table: &str, first: &str, heading: &str) -> String {
    format!(
        "(() => {{ const cells = [...document.querySelectorAll('.{table} tr')].map((row) => [...row.cells]) \
           .find((cells) => cells[0]?.textContent === '{first}') ?? []; \
           const headings = [...document.querySelectorAll('.{table} th')].map((heading) => heading.textContent); \
           const cell = cells['{heading}' ? headings.indexOf('{heading}') : 1]; \
           return cell?.checkVisibility() ? cell.textContent : null; }})()"
    )
}

#[test]
fn page_tables_show_shadow_drops_once_there_are_some() {
    need_kernel!();
    if !need::program("page_tables_show_shadow_drops_once_there_are_some", PROGRAM) {
        return;
    }
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1/h --burst 4 --shadow");
    let exporter = Exporter::start(&hosts.server);
    let mut browser = Browser::start(&hosts.server);
    browser.open(&format!("http://{}/", exporter.address));
    browser.wait_for("document.querySelector('#state')?.textContent === 'live'");
    let name = browser.evaluate("document.querySelector('.limits td').textContent");
    let places = [
        cell("limits", name.as_str().unwrap(), "Would drop"),
        cell("top", "203.0.113.7", "Would drop"),
        cell("reasons", "would drop (shadow)", ""),
    ];
    for place in &places {
        assert_eq!(browser.evaluate(place), serde_json::Value::Null, "{place}");
    }
    let wire = Raw::open(&hosts.client);
    let frame = udp(&hosts, std::net::Ipv4Addr::new(203, 0, 113, 7).into(), 9);
    (0..10).for_each(|_| wire.send(&frame));
    for place in &places {
        browser.wait_for(&format!("{place} === '6'"));
    }
}

/// Texts with a contrast below the 4.5:1 of WCAG 2.1.
fn readable(browser: &mut Browser) -> Vec<String> {
    let expression = r#"
        (() => {
            const parse = (text) => text.match(/[0-9.]+/g).map(Number);
            const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
                .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
                .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
            const ground = (element) => {
                for (let of = element; of; of = of.parentElement) {
                    const colour = parse(getComputedStyle(of).backgroundColor);
                    if (colour.length < 4 || colour[3] > 0) return colour;
                }
                return [255, 255, 255];
            };
            const texts = [...document.querySelectorAll('h1,h2 span,p,dt,dd,th,td,caption,figure span,footer a')];
            return texts.filter((element) => element.textContent.trim() && element.checkVisibility()).filter((element) => {
                const [a, b] = [light(parse(getComputedStyle(element).color)), light(ground(element))];
                return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5;
            }).map((element) => element.textContent);
        })()
    "#;
    serde_json::from_value(browser.evaluate(expression)).unwrap()
}

/// Names are shown as text, never as markup.
#[test]
fn page_loads_nothing_from_other_servers() {
    need_kernel!();
    if !need::program("page_loads_nothing_from_other_servers", PROGRAM) {
        return;
    }
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 10/s");
    let exporter = Exporter::start(&hosts.server);
    let mut browser = Browser::start(&hosts.server);
    browser.open(&format!("http://{}/", exporter.address));
    browser.wait_for("document.querySelector('#state')?.textContent === 'live'");
    let elsewhere = "performance.getEntriesByType('resource').map((e) => e.name).filter((name) => !name.startsWith(location.origin))";
    assert_eq!(browser.evaluate(elsewhere), serde_json::json!([]));
    assert_eq!(browser.complaints, Vec::<String>::new());
    // The policy works: a script in the page does not run, and the browser reports the violation.
    let inject = "new Promise((done) => { const s = document.createElement('div'); \
                  try { s.innerHTML = '<b>'; done('markup'); } catch (e) { done(e.name); } })";
    assert_eq!(browser.evaluate(inject), "TypeError");
    browser.evaluate("fetch('http://192.0.2.2/').then(() => 'reached', (e) => e.name)");
    assert!(
        browser
            .complaints
            .iter()
            .any(|text| text.contains("Content Security Policy")),
        "{:?}",
        browser.complaints
    );
}

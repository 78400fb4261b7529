//! `reload` applies the whole file or nothing; limits that stay keep their buckets, and removed limits leave none.

use std::{fs, time::Instant};

use limiter_tests::{
    command::{Outcome, prepared},
    files::{Folder, at_driver},
    hosts::{Hosts, on},
    need_kernel, number,
    packet::arp,
    raw::Raw,
    traffic::Traffic,
};
use serde_json::Value;

const SOURCE: &str = "192.0.2.2";

fn limit(name: &str, port: u16, rest: &str) -> String {
    format!(
        "[[limit]]\nname = \"{name}\"\nmatch = {{ protocol = \"udp\", destination_port = {port} }}\n{rest}\n"
    )
}

fn hourly(name: &str, port: u16, burst: u32) -> String {
    limit(name, port, &format!("rate = \"1/h\"\nburst = {burst}"))
}

struct Attached {
    hosts: Hosts,
    _folder: Folder,
    file: String,
}

impl Attached {
    fn with(text: &str) -> Self {
        let (hosts, folder) = (Hosts::new(), Folder::new());
        let file = folder.write("limiter.toml", at_driver(text));
        hosts
            .limiter(&["attach", "eth0", "--config", &file])
            .expect(0);
        Self {
            hosts,
            _folder: folder,
            file,
        }
    }

    /// Writes the file and reloads it.
    fn reload(&self, text: &str) -> Outcome {
        fs::write(&self.file, at_driver(text)).unwrap();
        self.hosts.limiter("reload eth0")
    }

    /// The output of a successful reload.
    fn reloaded(&self, text: &str) -> String {
        let outcome = self.reload(text);
        outcome.expect(0);
        outcome.stdout
    }

    fn shown(&self) -> String {
        let show = self.hosts.limiter("config show eth0");
        show.expect(0);
        show.stdout
    }

    fn limit(&self, name: &str) -> Value {
        let status = self.hosts.status();
        let limits = status["limits"].as_array().unwrap();
        let found = limits.iter().find(|limit| limit["name"] == name);
        found.unwrap_or_else(|| panic!("{status}")).clone()
    }

    /// Number of packets that a limit passed, and that it dropped.
    fn counted(&self, name: &str) -> (u64, u64) {
        let limit = self.limit(name);
        let packets = |verdict: &str| number(&limit[verdict]["packets"]);
        (packets("passed"), packets("dropped"))
    }

    fn tracked(&self) -> u64 {
        number(&self.hosts.status()["sources"]["tracked"])
    }
}

/// The limits have rate, burst and total.
#[test]
fn reload_changes_limits_on_control_traffic() {
    need_kernel!();
    let text = |control: &str| format!("exempt = [\"control\"]\n{control}{}", hourly("a", 1, 5));
    let attached = Attached::with(&text(""));
    let quota = |name: &str| {
        let limit = attached.limit(name);
        [limit["rate"].clone(), limit["burst"].clone()]
    };
    assert_eq!(quota("control"), ["100/s", "200"]);
    assert_eq!(quota("control-total"), ["10k/s", "10k"]);

    let control = "[control]\nrate = \"1/h\"\nburst = 2\ntotal = \"20/s\"\n";
    let output = attached.reloaded(&text(control));
    for change in [
        "control: rate 100/s -> 1/h",
        "control: burst 200 -> 2",
        "control-total: rate 10k/s -> 20/s",
    ] {
        assert!(output.contains(change), "{output}");
    }
    assert!(attached.shown().contains(control), "{}", attached.shown());
    let raw = Raw::to_send(&attached.hosts.client);
    let ask = |neighbour: u8| {
        let mut frame = arp();
        frame[28..32].copy_from_slice(&[192, 0, 2, neighbour]);
        raw.send(&frame);
    };
    (0..10).for_each(|_| ask(200));
    assert_eq!(attached.counted("control"), (2, 8));
    let begin = Instant::now();
    (0..200).for_each(ask);
    let (passed, dropped) = attached.counted("control-total");
    let most = 2 + 20 + (20.0 * begin.elapsed().as_secs_f64()).ceil() as u64;
    assert!((20..=most).contains(&passed), "{passed} of {most}");
    assert_eq!(passed + dropped, 2 + 200, "each packet was counted once");

    let output = attached.reloaded(&text("[control]\ntotal = \"none\"\n"));
    assert!(output.contains("limit control-total gone"), "{output}");
    (0..200).for_each(ask);
    let (passed, _) = attached.counted("control");
    assert!(passed >= 200, "{passed}");
}

#[test]
fn reload_of_an_unchanged_file_undoes_other_changes() {
    need_kernel!();
    let text = hourly("a", 1, 5) + &hourly("b", 2, 5) + "[lists]\ndeny = [\"203.0.113.66\"]\n";
    let attached = Attached::with(&text);
    let shown = attached.shown();
    let output = attached.reloaded(&text);
    assert!(output.contains("unchanged"), "{output}");
    attached.hosts.run("deny add eth0 203.0.113.67");
    // A change that is there already gets no warning.
    for warnings in [1, 0] {
        let set = attached.hosts.limiter("set eth0 --limit b --burst 9");
        set.expect(0);
        let warned = set.stderr.matches("does not have this change").count();
        assert_eq!(warned, warnings, "{set:#?}");
    }
    let output = attached.reloaded(&text);
    assert!(output.contains("deny: 0 added, 1 removed"), "{output}");
    assert!(output.contains("b: burst 9 -> 5"), "{output}");
    assert_eq!(attached.shown(), shown);
}

/// The burst must hold the interface's longest frame; table size and mode are fixed at attach.
#[test]
fn reload_of_an_unusable_or_missing_file_changes_nothing() {
    need_kernel!();
    let text = hourly("a", 1, 5);
    let attached = Attached::with(&text);
    let (before, shown) = (attached.hosts.status(), attached.shown());
    let small = limit("a", 1, "rate = \"10mbit\"\nburst = \"100b\"");
    let fixed = |setting: &str| format!("{setting}\n{text}");
    for (wrong, words) in [
        (
            format!("{text}brust = 3\n"),
            &["line 7: ", "'burst'", "nothing was changed"][..],
        ),
        (text.replace("1/h", "1/x"), &["line 5: ", "period"]),
        (text.replace("[[limit]]", "[[limit"), &["line 2: "]),
        (String::new(), &["line 1: ", "nothing to limit"]),
        (small, &["eth0: ", "100b", "1522"]),
        (
            fixed("max_sources = 1000"),
            &[
                "fixed at attach",
                "65536, 1000 wanted",
                "limiter detach eth0",
            ],
        ),
        (
            fixed("mode = \"generic\""),
            &["fixed at attach", "xdp, generic wanted"],
        ),
    ] {
        let refused = attached.reload(&wrong);
        refused.expect(1);
        assert_eq!(refused.stdout, "");
        for word in words {
            assert!(refused.stderr.contains(word), "{word}: {refused:#?}");
        }
    }
    fs::remove_file(&attached.file).unwrap();
    let missing = ["limiter.toml cannot be read", "No such file"];
    attached
        .hosts
        .limiter("reload eth0")
        .expect_error(1, &missing);
    assert_eq!(attached.shown(), shown);
    assert_eq!(attached.hosts.status(), before, "the same program runs");
}

/// A limit keeps its buckets if it keeps its name and key.
#[test]
fn reload_adds_and_removes_limits() {
    need_kernel!();
    let (a, b, c) = (hourly("a", 1, 5), hourly("b", 2, 5), hourly("c", 3, 5));
    let attached = Attached::with(&(a.clone() + &b));
    let traffic = Traffic::new(&attached.hosts);
    assert_eq!(traffic.passed_to(1, SOURCE, 7), 5);
    assert_eq!(traffic.passed_to(2, SOURCE, 7), 5);
    assert_eq!(attached.tracked(), 2);

    let text = attached.reloaded(&(c.clone() + &a + &b));
    assert!(text.contains("limit c new: 1/h"), "{text}");
    assert_eq!(traffic.passed_to(1, SOURCE, 7), 0, "a stays");
    assert_eq!(traffic.passed_to(2, SOURCE, 7), 0, "b stays");
    assert_eq!(traffic.passed_to(3, SOURCE, 7), 5, "c is new");
    assert_eq!(attached.tracked(), 3);

    let text = attached.reloaded(&(c.clone() + &b));
    assert!(text.contains("limit a gone"), "{text}");
    assert_eq!(attached.tracked(), 2, "no bucket is left");
    assert_eq!(traffic.passed_to(1, SOURCE, 7), 7, "port 1 has no limit");
    assert_eq!(traffic.passed_to(2, SOURCE, 7), 0);
    assert_eq!(traffic.passed_to(3, SOURCE, 7), 0);

    // A limit that is added again begins with empty counters, a renamed one is new, and another key means new buckets.
    let (z, wide) = (
        a.replace("\"a\"", "\"z\""),
        c.replace("rate", "key = \"/24,/48\"\nrate"),
    );
    let text = attached.reloaded(&(a + &b + &wide));
    assert!(
        text.contains("c: key /32,/64 -> /24,/48, with new buckets"),
        "{text}"
    );
    assert_eq!(attached.counted("a"), (0, 0));
    assert_eq!(traffic.passed_to(1, SOURCE, 7), 5);
    assert_eq!(
        (attached.counted("a"), attached.counted("b")),
        ((5, 2), (5, 16))
    );
    let text = attached.reloaded(&(z.clone() + &b + &wide));
    assert!(text.contains("limit a gone\neth0: limit z new"), "{text}");
    assert_eq!(attached.tracked(), 1, "b's");
    assert_eq!(traffic.passed_to(1, SOURCE, 7), 5);
    assert_eq!(traffic.passed_to(2, SOURCE, 7), 0);
    assert_eq!(traffic.passed_to(3, "192.0.2.9", 7), 5);
    assert_eq!(traffic.passed_to(3, SOURCE, 7), 0, "the same /24");

    // This reload changes only the order.
    let text = attached.reloaded(&(wide + &b + &z));
    assert!(text.contains("order of the limits"), "{text}");
    assert_eq!(traffic.passed_to(1, SOURCE, 7), 0);
    let status = attached.hosts.status();
    let sum = number(&status["passed"]["packets"]) + number(&status["dropped"]["packets"]);
    assert_eq!(number(&status["seen"]["packets"]), sum);
    assert_eq!(sum, 7 * 14, "figures of the interface go on: {status}");
}

#[test]
fn reload_remembers_the_file_of_the_last_reload() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 5");
    let words = [
        "not attached from a file",
        "limiter reload eth0 --config FILE",
    ];
    hosts.limiter("reload eth0").expect_error(1, &words);
    let folder = Folder::new();
    let file = folder.write("other.toml", at_driver(hourly("a", 1, 5)));
    // The command runs in the file's folder, with a relative name.
    let mut reload = prepared("reload eth0 --config other.toml");
    reload.current_dir(folder.path(""));
    let output = on(&hosts.server, || reload.output()).unwrap();
    Outcome::of("reload".to_owned(), output).expect(0);
    assert_eq!(hosts.status()["file"], file.as_str());
    assert_eq!(hosts.status()["limits"][0]["name"], "a");
    fs::write(&file, at_driver(hourly("a", 1, 6))).unwrap();
    hosts.run("reload eth0");
    assert_eq!(hosts.status()["limits"][0]["burst"], "6");
}

/// The command makes a trial permanent, and keeps the buckets.
#[test]
fn attach_or_reload_takes_over_an_attachment() {
    need_kernel!();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let file = folder.write("limiter.toml", at_driver(hourly("a", 1, 5)));
    let attach = ["attach", "eth0", "--config", &file];
    let take_over = [&attach[..], &["--or-reload"]].concat();
    hosts.limiter(&take_over).expect(0);
    let traffic = Traffic::new(&hosts);
    assert_eq!(traffic.passed_to(1, SOURCE, 4), 4);
    fs::write(&file, at_driver(hourly("a", 1, 6))).unwrap();
    hosts
        .limiter(&attach)
        .expect_error(1, &["attached to 'eth0' already", "--or-reload"]);
    hosts.limiter(&take_over).expect(0);
    assert_eq!(traffic.passed_to(1, SOURCE, 9), 2, "4 of 6 are spent");
    fs::write(&file, "nothing = 1").unwrap();
    hosts.limiter(&take_over).expect(1);
    assert_eq!(hosts.status()["limits"][0]["burst"], "6");

    hosts.run("detach eth0");
    fs::write(&file, at_driver(hourly("a", 1, 5))).unwrap();
    let on_trial = [&attach[..], &["--try", "1h"]].concat();
    hosts.limiter(&on_trial).expect(0);
    assert!(hosts.status()["try_until"].is_string());
    hosts.limiter(&take_over).expect(0);
    assert_eq!(hosts.status()["try_until"], Value::Null);
}

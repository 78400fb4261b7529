//! `reload` applies the whole file or nothing; limits that stay keep their buckets, and removed limits leave none.

use std::{fs, process::Command, time::Instant};

use limiter_tests::{
    command::{Outcome, binary},
    files::Folder,
    hosts::Hosts,
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
        let file = folder.write("limiter.toml", text);
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
        fs::write(&self.file, text).unwrap();
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
        let of = |verdict: &str| number(&limit[verdict]["packets"]);
        (of("passed"), of("dropped"))
    }

    fn tracked(&self) -> u64 {
        number(&self.hosts.status()["sources"]["tracked"])
    }
}

#[test]
fn reload_of_a_changed_file_keeps_buckets_and_counters() {
    need_kernel!();
    let attached = Attached::with(&(hourly("a", 1, 5) + &hourly("b", 2, 5)));
    let traffic = Traffic::new(&attached.hosts);
    assert_eq!(traffic.passed_to(1, SOURCE, 7), 5);
    assert_eq!(traffic.passed_to(2, SOURCE, 3), 3);
    let since = attached.hosts.status()["attached_at"].clone();

    let text = attached.reloaded(&(hourly("a", 1, 6) + &hourly("b", 2, 5)));
    assert!(text.contains("a: burst 5 -> 6"), "{text}");
    assert!(!text.contains("b:"), "{text}");
    assert_eq!(traffic.passed_to(1, SOURCE, 7), 1, "the burst grew by one");
    assert_eq!(traffic.passed_to(2, SOURCE, 7), 2, "two tokens were left");
    assert_eq!(attached.counted("a"), (6, 8));
    assert_eq!(attached.counted("b"), (5, 5));
    let status = attached.hosts.status();
    assert_eq!(status["seen"]["packets"], 24, "{status}");
    assert_eq!(status["attached_at"], since, "the same attachment");
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
        "control: rate 100/s -> 1/h (tighter)",
        "control: burst 200 -> 2 (tighter)",
        "control-total: rate 10k/s -> 20/s (tighter)",
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
fn reload_of_an_unchanged_file_changes_nothing() {
    need_kernel!();
    let text = hourly("a", 1, 5) + &hourly("b", 2, 5) + "[lists]\ndeny = [\"203.0.113.66\"]\n";
    let attached = Attached::with(&text);
    let traffic = Traffic::new(&attached.hosts);
    assert_eq!(traffic.passed_to(1, SOURCE, 7), 5);
    let shown = attached.shown();
    for _ in 0..10 {
        let output = attached.reloaded(&text);
        assert!(output.contains("unchanged"), "{output}");
    }
    assert_eq!(attached.shown(), shown);
    assert_eq!(
        traffic.passed_to(1, SOURCE, 3),
        0,
        "the bucket is unchanged"
    );
    assert_eq!(traffic.passed_to(2, SOURCE, 7), 5);
    assert_eq!(attached.counted("a"), (5, 5));
    // The reload undoes changes that other commands made.
    attached.hosts.run("deny add eth0 203.0.113.67");
    let set = ["set", "eth0", "--limit", "b", "--burst", "9"];
    for (already, warnings) in [(false, 1), (true, 0)] {
        let outcome = attached.hosts.limiter(&set);
        outcome.expect(0);
        assert_eq!(
            outcome.stderr.matches("does not have this change").count(),
            warnings,
            "changed already: {already}: {outcome:#?}"
        );
    }
    let output = attached.reloaded(&text);
    assert!(output.contains("deny: 0 added, 1 removed"), "{output}");
    assert!(output.contains("b: burst 9 -> 5"), "{output}");
    assert_eq!(attached.shown(), shown);
}

#[test]
fn reload_of_a_wrong_or_missing_file_changes_nothing() {
    need_kernel!();
    let text = hourly("a", 1, 5);
    let attached = Attached::with(&text);
    let before = attached.hosts.status();
    let shown = attached.shown();
    for (wrong, words) in [
        (format!("{text}brust = 3\n"), &["line 6: ", "'burst'"][..]),
        (text.replace("1/h", "1/x"), &["line 4: ", "period"]),
        (text.replace("[[limit]]", "[[limit"), &["line 1: "]),
        (String::new(), &["line 1: ", "nothing to limit"]),
        (
            text.replace("burst = 5", "burst = \"64kb\""),
            &["line 5: ", "packets"],
        ),
    ] {
        let refused = attached.reload(&wrong);
        refused.expect(1);
        assert_eq!(refused.stdout, "");
        for word in words {
            assert!(refused.stderr.contains(word), "{word}: {refused:#?}");
        }
        assert!(
            refused.stderr.contains("nothing was changed"),
            "{refused:#?}"
        );
    }
    fs::remove_file(&attached.file).unwrap();
    attached
        .hosts
        .limiter("reload eth0")
        .expect_error(1, &["limiter.toml cannot be read", "No such file"]);
    assert_eq!(attached.shown(), shown);
    assert_eq!(attached.hosts.status(), before, "the same program runs");
}

/// The burst is smaller than the interface's longest frame.
#[test]
fn reload_that_does_not_fit_the_interface_changes_nothing() {
    need_kernel!();
    let attached = Attached::with(&hourly("a", 1, 5));
    let before = attached.hosts.status();
    let outcome = attached.reload(&limit("a", 1, "rate = \"10mbit\"\nburst = \"100b\""));
    outcome.expect(1);
    // The first lines are a warning about the file. The last line is the error about the interface.
    let error = outcome.stderr.lines().last().unwrap();
    for word in ["eth0: ", "100b", "1522"] {
        assert!(error.contains(word), "{outcome:#?}");
    }
    assert_eq!(attached.hosts.status(), before);
}

#[test]
fn reload_refuses_settings_fixed_at_attach() {
    need_kernel!();
    let text = hourly("a", 1, 5);
    let attached = Attached::with(&text);
    let before = attached.hosts.status();
    for (change, words) in [
        ("max_sources = 1000", ["max_sources", "65536, 1000 wanted"]),
        ("mode = \"generic\"", ["mode", "auto, generic wanted"]),
    ] {
        let refused = attached.reload(&format!("{change}\n{text}"));
        refused.expect_error(1, &["fixed at attach", "limiter detach eth0"]);
        refused.expect_error(1, &words);
    }
    assert_eq!(attached.hosts.status(), before);
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

    // A limit that is added again begins with empty counters.
    attached.reloaded(&(a.clone() + &b + &c));
    assert_eq!(attached.counted("a"), (0, 0));
    assert_eq!(traffic.passed_to(1, SOURCE, 7), 5);
    assert_eq!(attached.counted("a"), (5, 2));
    assert_eq!(attached.counted("b"), (5, 16));

    // A renamed limit is new, and a limit with another key has new buckets.
    let other_key = c.replace("rate", "key = \"/24,/48\"\nrate");
    let text = attached.reloaded(&(a.replace("\"a\"", "\"z\"") + &b + &other_key));
    assert!(text.contains("limit a gone\neth0: limit z new"), "{text}");
    assert!(
        text.contains("c: key /32,/64 -> /24,/48, with new buckets"),
        "{text}"
    );
    assert_eq!(attached.tracked(), 1, "b's");
    assert_eq!(traffic.passed_to(1, SOURCE, 7), 5);
    assert_eq!(traffic.passed_to(2, SOURCE, 7), 0);
    assert_eq!(traffic.passed_to(3, "192.0.2.9", 7), 5);
    assert_eq!(traffic.passed_to(3, SOURCE, 7), 0, "the same /24");

    // This reload changes only the order.
    let text = attached.reloaded(&(other_key + &b + &a.replace("\"a\"", "\"z\"")));
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
    hosts.limiter("reload eth0").expect_error(
        1,
        &[
            "not attached from a file",
            "limiter reload eth0 --config FILE",
        ],
    );
    hosts
        .limiter("reload lo")
        .expect_error(1, &["not attached to 'lo'"]);

    let folder = Folder::new();
    let file = folder.write("other.toml", hourly("a", 1, 5));
    // The command runs in the file's folder, with a relative name.
    let from_there = hosts.server.namespace.run(|| {
        Command::new(binary())
            .args(["reload", "eth0", "--config", "other.toml"])
            .current_dir(folder.path(""))
            .output()
    });
    Outcome::of("reload".to_owned(), from_there.unwrap().unwrap()).expect(0);
    assert_eq!(hosts.status()["file"], file.as_str());
    assert_eq!(hosts.status()["limits"][0]["name"], "a");
    fs::write(&file, hourly("a", 1, 6)).unwrap();
    hosts.run("reload eth0");
    assert_eq!(hosts.status()["limits"][0]["burst"], "6");
}

/// The command makes a trial permanent, and keeps the buckets.
#[test]
fn attach_or_reload_takes_over_an_attachment() {
    need_kernel!();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let file = folder.write("limiter.toml", hourly("a", 1, 5));
    let attach = ["attach", "eth0", "--config", &file];
    let take_over = [&attach[..], &["--or-reload"]].concat();
    hosts.limiter(&take_over).expect(0);
    let traffic = Traffic::new(&hosts);
    assert_eq!(traffic.passed_to(1, SOURCE, 4), 4);
    fs::write(&file, hourly("a", 1, 6)).unwrap();
    hosts
        .limiter(&attach)
        .expect_error(1, &["attached to 'eth0' already", "--or-reload"]);
    hosts.limiter(&take_over).expect(0);
    assert_eq!(traffic.passed_to(1, SOURCE, 9), 2, "4 of 6 are spent");
    fs::write(&file, "nothing = 1").unwrap();
    hosts.limiter(&take_over).expect(1);
    assert_eq!(hosts.status()["limits"][0]["burst"], "6");
    let flags = ["attach", "eth0", "--rate", "7", "--or-reload"];
    hosts.limiter(&flags).expect(0);
    assert_eq!(hosts.status()["limits"][0]["rate"], "7/s");
    hosts
        .limiter("reload eth0")
        .expect_error(1, &["not attached from a file"]);

    hosts.run("detach eth0");
    fs::write(&file, hourly("a", 1, 5)).unwrap();
    let on_trial = [&attach[..], &["--try", "1h"]].concat();
    hosts.limiter(&on_trial).expect(0);
    assert!(hosts.status()["try_until"].is_string());
    hosts.limiter(&take_over).expect(0);
    assert_eq!(hosts.status()["try_until"], Value::Null);
}

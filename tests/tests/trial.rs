//! The kernel undoes a change with `--try` at the deadline unless it is kept, without a process, and without cost to
//! any bucket.

use std::{
    fs, thread,
    time::{Duration, Instant, SystemTime},
};

use limiter_tests::{
    command::prepared,
    files::{Folder, at_driver},
    hosts::{CLIENT, Hosts},
    need_kernel,
    probe::{Probe, SENT},
    steps::{End, Fault, kill_at_each_step, run_with},
    trials::{LIMIT, attach, expect_nothing_left, passed, try_until, wait_for_the_end},
};
use nix::sys::stat::stat;

/// Number of processes in the network namespace of the server.
fn processes(hosts: &Hosts) -> usize {
    let own = hosts
        .server
        .namespace
        .run(|| stat("/proc/thread-self/ns/net"));
    let own = own.unwrap().unwrap().st_ino;
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let inside = processes.filter(|process| {
        stat(&process.path().join("ns/net")).is_ok_and(|namespace| namespace.st_ino == own)
    });
    inside.count()
}

fn set(hosts: &Hosts, options: &str) {
    hosts.run(&format!("set eth0 {options}"));
}

#[test]
fn trial_of_attach_ends_at_the_deadline_without_a_process() {
    need_kernel!();
    let hosts = Hosts::new();
    const TIME: Duration = Duration::from_secs(12);
    let before = SystemTime::now();
    let output = attach(&hosts, "12s").stdout;
    assert!(output.contains("undone in"), "{output}");
    assert!(output.contains("`limiter keep eth0`"), "{output}");
    assert_eq!(processes(&hosts), 0, "no process waits for the end");
    let until = try_until(&hosts).unwrap();
    // The deadline is given in whole seconds.
    assert!(until + Duration::from_secs(1) > before + TIME);
    assert!(until <= SystemTime::now() + TIME);
    let text = hosts.limiter("status eth0").stdout;
    assert!(text.contains("ON TRIAL") && text.contains("`limiter keep eth0`"));
    assert_eq!(passed(&hosts), 3, "packets that pass on trial");

    wait_for_the_end(&hosts);
    assert_eq!(passed(&hosts), SENT, "packets that pass after the trial");
    for command in ["status eth0", "keep eth0", "check eth0 192.0.2.2"] {
        hosts
            .limiter(command)
            .expect_error(1, &["the trial on 'eth0' ended at", "nothing is limited"]);
    }
    let status = hosts.limiter("status --json");
    status.expect(0);
    assert!(status.stderr.contains("nothing is limited"), "{status:?}");
    let json: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(json["interfaces"], serde_json::json!([]));

    hosts.limiter(&LIMIT).expect(0);
    assert_eq!(passed(&hosts), 3, "packets that pass after the next attach");
    hosts.run("detach eth0");
    expect_nothing_left(&hosts);
}

#[test]
fn trial_of_attach_can_be_kept_or_reverted() {
    need_kernel!();
    let hosts = Hosts::new();
    for (command, words) in [
        ("keep eth0", "not attached"),
        ("keep eth9", "no interface 'eth9'"),
    ] {
        hosts.limiter(command).expect_error(1, &[words]);
    }
    attach(&hosts, "10s");
    let until = SystemTime::now() + Duration::from_secs(10);
    let keep = hosts.limiter("keep eth0");
    keep.expect(0);
    assert!(keep.stdout.contains("kept"), "{keep:#?}");
    assert_eq!(try_until(&hosts), None);
    assert_eq!(passed(&hosts), 3);
    thread::sleep(until.duration_since(SystemTime::now()).unwrap_or_default());
    assert_eq!(passed(&hosts), 0, "the kept bucket is still empty");
    let again = hosts.limiter("keep eth0");
    again.expect(0);
    assert!(again.stdout.contains("not on trial"), "{again:#?}");
    hosts.run("detach eth0");

    attach(&hosts, "1h");
    hosts.run("keep eth0 --revert");
    assert_eq!(passed(&hosts), SENT);
    expect_nothing_left(&hosts);
}

#[test]
fn detach_works_during_and_after_a_trial() {
    need_kernel!();
    let hosts = Hosts::new();
    attach(&hosts, "5s");
    wait_for_the_end(&hosts);
    hosts.run("detach eth0");
    expect_nothing_left(&hosts);
    hosts.limiter(&LIMIT).expect(0);
    set(&hosts, "--burst 5 --try 1h");
    hosts.run("detach eth0");
    expect_nothing_left(&hosts);
}

/// Rate and burst are eight, then twenty, then eight again. The test takes seconds, which give less than a token at
/// these rates.
#[test]
fn trial_gives_and_takes_no_tokens() {
    need_kernel!();
    let hosts = Hosts::new();
    let probe = Probe::new(&hosts);
    hosts.run("attach eth0 --rate 60/h --burst 8");
    let sources: Vec<_> = (0..4).map(|_| probe.stranger()).collect();
    let send = |source: usize, count| probe.passed_of(sources[source], count);
    assert_eq!(send(0, 3), 3);
    assert_eq!(send(1, 3), 3);
    assert_eq!(send(3, 10), 8);
    set(&hosts, "--rate 90/h --burst 20 --try 12s");
    assert_eq!(send(0, 2), 2, "5 tokens of 20 are spent");
    assert_eq!(send(2, 5), 5);
    assert_eq!(send(3, 20), 12, "8 tokens of 20 are spent");
    wait_for_the_end(&hosts);
    assert_eq!(send(0, 9), 3, "3 before, 2 on trial, and 3 after it");
    assert_eq!(send(1, 9), 5, "3 tokens of 8 are spent");
    assert_eq!(send(2, 9), 3, "5 tokens of 8 are spent");
    assert_eq!(send(3, 9), 0);
    assert_eq!(probe.passed_of(probe.stranger(), 20), 8);
    // The next change, which removes the leftovers of the trial, gives and takes no tokens either.
    set(&hosts, "--burst 9");
    assert_eq!(send(1, 9), 1);
    assert_eq!(hosts.status()["limits"][0]["rate"], "60/h");
}

#[test]
fn kept_trial_keeps_its_buckets() {
    need_kernel!();
    let hosts = Hosts::new();
    let probe = Probe::new(&hosts);
    let source = probe.stranger();
    hosts.run("attach eth0 --rate 60/h --burst 8");
    assert_eq!(probe.passed_of(source, 6), 6);
    set(&hosts, "--burst 12 --try 8s");
    let end = Instant::now() + Duration::from_secs(9);
    assert_eq!(probe.passed_of(source, 3), 3);
    hosts.run("keep eth0");
    assert_eq!(try_until(&hosts), None);
    thread::sleep(end.saturating_duration_since(Instant::now()));
    assert_eq!(probe.passed_of(source, 9), 3, "9 tokens of 12 are spent");
    assert_eq!(probe.passed_of(probe.stranger(), 20), 12);
    // The next trial is undone.
    set(&hosts, "--burst 15 --rate 90/h --try 1h");
    assert_eq!(probe.passed_of(source, 9), 3);
    hosts.run("keep eth0 --revert");
    assert_eq!(probe.passed_of(source, 9), 0);
    assert_eq!(probe.passed_of(probe.stranger(), 20), 12);
    assert_eq!(hosts.status()["limits"][0]["rate"], "60/h");
    assert_eq!(generations(&hosts), 1);
}

fn generations(hosts: &Hosts) -> usize {
    let names = fs::read_dir(hosts.pins()).unwrap().flatten();
    names
        .filter(|entry| entry.file_name().to_string_lossy().starts_with('g'))
        .count()
}

/// Readers show the settings in force even before a command has removed the leftovers of the trial.
#[test]
fn keep_after_the_deadline_leaves_the_former_settings() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.limiter(&LIMIT).expect(0);
    set(&hosts, "--burst 5 --try 5s");
    let probe = Probe::new(&hosts);
    let shown = || {
        let check = hosts.json(&format!("check eth0 {CLIENT} --json"));
        let burst = check["limits"][0]["burst_tokens"].as_u64().unwrap();
        (generations(&hosts), burst, probe.burst())
    };
    assert_eq!(shown(), (2, 5, 5));
    wait_for_the_end(&hosts);
    assert_eq!(shown(), (2, 3, 3));
    let status = hosts.status();
    assert_eq!(status["try_until"], serde_json::Value::Null);
    assert!(status["trial_ended"].is_string(), "{status}");
    assert_eq!(status["limits"][0]["burst"], "3");
    assert!(hosts.run("config show eth0").contains("burst = 3"));
    let text = hosts.run("status eth0");
    assert!(text.contains("A trial ended"), "{text}");
    let words = ["ended at", "the settings before it are in force again"];
    hosts.limiter("keep eth0").expect_error(1, &words);
    assert_eq!(hosts.status()["trial_ended"], serde_json::Value::Null);
    assert_eq!(shown(), (1, 3, 3));
}

/// The command is stopped between its last reading of the clock and the swap, until packets have met the fallback.
#[test]
fn keep_delayed_past_the_deadline_knows_the_buckets_of_both_programs() {
    need_kernel!();
    let hosts = Hosts::new();
    let probe = Probe::new(&hosts);
    let (both, tried) = (probe.stranger(), probe.stranger());
    hosts.run("attach eth0 --rate 60/h --burst 9");
    set(&hosts, "--rate 90/h --burst 20 --try 16s");
    assert_eq!(probe.passed_of(both, 2), 2);
    assert_eq!(probe.passed_of(tried, 15), 15);
    let mut late = false;
    let stopped = hosts.server.namespace.run(|| {
        run_with(&mut prepared("keep eth0"), |call| {
            if call.name == "swap" {
                wait_for_the_end(&hosts);
                // The fallback passes these packets.
                assert_eq!(probe.passed_of(both, 3), 3);
                assert_eq!(probe.passed_of(probe.stranger(), 20), 9);
                late = true;
            }
            Fault::None
        })
    });
    let stopped = stopped.unwrap().unwrap();
    assert!(late, "no swap was seen: {stopped:?}");
    assert_eq!(stopped.end, End::Done(0), "{stopped:?}");
    assert_eq!(probe.passed_of(both, 20), 15, "5 tokens of 20 are spent");
    assert_eq!(probe.passed_of(tried, 20), 5, "15 tokens of 20 are spent");
    assert_eq!(probe.passed_of(probe.stranger(), 25), 20);
    assert_eq!(hosts.status()["limits"][0]["rate"], "90/h");
}

#[test]
fn permanent_change_during_a_trial_outlives_it() {
    need_kernel!();
    let hosts = Hosts::new();
    let probe = Probe::new(&hosts);
    let source = probe.stranger();
    hosts.limiter(&LIMIT).expect(0);
    assert_eq!(probe.passed_of(source, 2), 2);
    set(&hosts, "--burst 8 --try 16s");
    assert_eq!(probe.passed_of(source, 3), 3);
    let until = try_until(&hosts);
    let second = hosts.limiter("deny add eth0 192.0.2.3 --try 2m");
    second.expect_error(1, &["limiter keep eth0`", "`limiter keep eth0 --revert`"]);
    let deny = hosts.run(&format!("deny add eth0 {CLIENT}"));
    assert!(
        deny.contains("permanent; the trial of the other changes ends at"),
        "{deny}"
    );
    assert_eq!(try_until(&hosts), until, "the trial continues");
    assert_eq!(probe.passed(CLIENT), 0);
    set(&hosts, "--rate 2/h");
    assert_eq!(probe.passed_of(source, 9), 3, "5 tokens of 8 are spent");
    assert_eq!(probe.burst(), 8);
    wait_for_the_end(&hosts);
    assert_eq!(probe.passed(CLIENT), 0, "still denied");
    assert_eq!(probe.burst(), 3);
    assert_eq!(probe.passed_of(source, 9), 0);
    assert_eq!(hosts.status()["limits"][0]["rate"], "2/h");
    // A permanent change to the settings on trial ends the trial.
    set(&hosts, "--burst 9 --try 1h");
    set(&hosts, "--burst 7");
    assert_eq!(try_until(&hosts), None);
    assert_eq!(probe.burst(), 7);
    assert_eq!(generations(&hosts), 1);
}

/// The settings in force and those after the trial both have the change, or neither does.
#[test]
fn killed_permanent_change_during_a_trial_holds_after_it_too_or_not_at_all() {
    need_kernel!();
    let hosts = Hosts::new();
    let rate = || hosts.status()["limits"][0]["rate"].clone();
    let (mut old, mut new) = (0, 0);
    let begin = || {
        let _ = hosts.limiter("detach eth0");
        hosts.limiter(&LIMIT).expect(0);
        set(&hosts, "--burst 8 --try 1h");
    };
    let change = ["set", "eth0", "--rate", "2/h"];
    kill_at_each_step(&hosts, &change, begin, |step, situation| {
        let now = rate();
        match now.as_str() {
            Some("1/h") => old += 1,
            Some("2/h") => new += 1,
            other => panic!("{situation}: {other:?}"),
        }
        // The next command clears what the killed one has left.
        if step % 2 == 0 {
            set(&hosts, "--burst 9");
        }
        hosts.run("keep eth0 --revert");
        assert_eq!(rate(), now, "{situation}: after the trial");
        assert_eq!(generations(&hosts), 1, "{situation}");
    });
    assert!(old > 3 && new > 1, "{old} and {new}");
}

/// This holds even though new sources of the trial search the table for room.
#[test]
fn limit_missing_in_a_trial_keeps_its_buckets() {
    need_kernel!();
    let hosts = Hosts::new();
    let files = Folder::new();
    let probe = Probe::new(&hosts);
    let all = "mode = \"native\"\nmax_sources = 64\nnew_sources = \"none\"\n[lists]\nown = [\"10.99.0.0/24\"]\n";
    let own =
        "[[limit]]\nname = \"own\"\nmatch = { source = \"own\" }\nrate = \"60/h\"\nburst = 6\n";
    let others = "[[limit]]\nname = \"others\"\nrate = \"100/s\"\nburst = 9\n";
    let both = files.write("both.toml", format!("{all}{own}{others}"));
    let single = files.write("one.toml", format!("{all}{others}"));
    hosts.run(&format!("attach eth0 --config {both}"));
    let source = "10.99.0.7".parse().unwrap();
    assert_eq!(probe.passed_of(source, 4), 4);
    hosts.run(&format!("reload eth0 --config {single} --try 12s"));
    assert_eq!(probe.passed_of(source, 9), 9, "by the other limit");
    for _ in 0..200 {
        let _ = probe.passed_of(probe.stranger(), 1);
    }
    wait_for_the_end(&hosts);
    assert_eq!(probe.passed_of(source, 9), 2, "4 tokens of 6 are spent");
    // The buckets are removed if the trial is kept.
    hosts.run(&format!("reload eth0 --config {single} --try 1h"));
    hosts.run("keep eth0");
    hosts.run(&format!("reload eth0 --config {both}"));
    assert_eq!(probe.passed_of(source, 9), 6);
}

#[test]
fn dry_run_changes_nothing() {
    need_kernel!();
    let (hosts, files) = (Hosts::new(), Folder::new());
    hosts.limiter(&LIMIT).expect(0);
    let text = "[[limit]]\nname = \"default\"\nrate = \"7/s\"\n";
    let reload = format!(
        "reload eth0 --config {} --dry-run",
        files.write("new.toml", at_driver(text))
    );
    let picture = || {
        (
            generations(&hosts),
            hosts.status(),
            hosts.run("config show eth0"),
        )
    };
    let before = picture();
    for (command, says) in [
        ("set eth0 --rate 2/h --dry-run", "2/h"),
        (reload.as_str(), "7/s"),
        ("deny add eth0 192.0.2.2 --dry-run", "1 added"),
        ("allow add eth0 192.0.2.2 --dry-run", "1 added"),
    ] {
        let said = hosts.run(command);
        assert!(said.contains(says), "{said}");
        assert!(said.contains("dry run: nothing was changed"), "{said}");
    }
    hosts.limiter("set eth0 --burst 0 --dry-run").expect(2);
    hosts
        .limiter("set eth0 --burst 9 --dry-run --try 2m")
        .expect(2);
    assert_eq!(picture(), before);
    assert_eq!(passed(&hosts), 3);
}

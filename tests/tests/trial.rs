//! `attach --try`: undone by itself unless it is kept, whatever dies meanwhile.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    thread,
    time::{Duration, SystemTime},
};

use limiter_tests::{
    command::binary,
    eventually,
    hosts::Hosts,
    need_kernel,
    trials::{LIMIT, attach, expect_nothing_left, has_program, holder, holders, passed, try_until},
};
use nix::{
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};

/// How late the end of a trial may be seen on a machine that is busy.
const LATE: Duration = Duration::from_secs(5);

#[test]
fn it_limits_and_is_undone_in_time() {
    need_kernel!();
    let hosts = Hosts::new();
    // What is looked at on trial takes some of it.
    const TIME: Duration = Duration::from_secs(5);
    let before = SystemTime::now();
    let said = attach(&hosts, "5s").stdout;
    assert!(said.contains("undone at"), "{said}");
    assert!(said.contains("`limiter keep eth0`"), "{said}");
    let until = try_until(&hosts).unwrap();
    let latest = SystemTime::now() + TIME;
    // Told in whole seconds.
    assert!(until + Duration::from_secs(1) > before + TIME && until <= latest);
    let text = hosts.limiter(&["status", "eth0"]).stdout;
    assert!(text.contains("ON TRIAL") && text.contains("`limiter keep eth0`"));
    assert_eq!(passed(&hosts), 3, "on trial it limits");

    eventually("it is undone", || {
        !has_program(&hosts) && !hosts.pins().exists()
    });
    let undone = SystemTime::now();
    assert!(undone > before + TIME, "early");
    assert!(undone < latest + LATE, "late: {undone:?}, {latest:?}");
    assert_eq!(passed(&hosts), 10, "and no longer limits");
    hosts
        .limiter(&["keep", "eth0"])
        .expect_error(1, &["nothing to keep", "limiter attach eth0"]);
    expect_nothing_left(&hosts);
}

#[test]
fn it_is_kept() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts
        .limiter(&["keep", "eth0"])
        .expect_error(1, &["nothing to keep", "eth0"]);
    hosts
        .limiter(&["keep", "eth9"])
        .expect_error(1, &["no interface 'eth9'"]);
    attach(&hosts, "5s");
    let until = SystemTime::now() + Duration::from_secs(5);
    let keep = hosts.limiter(&["keep", "eth0"]);
    keep.expect(0);
    assert!(keep.stdout.contains("kept"), "{keep:#?}");
    assert_eq!(try_until(&hosts), None);
    assert_eq!(passed(&hosts), 3);
    let pins = hosts.pins();
    eventually("no process is needed", || holders(&pins).is_empty());
    thread::sleep(until.duration_since(SystemTime::now()).unwrap_or_default());
    assert_eq!(passed(&hosts), 0, "nothing was undone, nothing forgotten");
    let again = hosts.limiter(&["keep", "eth0"]);
    again.expect(0);
    assert!(again.stdout.contains("already"), "{again:#?}");
    hosts.limiter(&["detach", "eth0"]).expect(0);
    expect_nothing_left(&hosts);
}

/// The shell, the terminal's process group and all that `attach` was started from.
#[test]
fn it_is_undone_though_the_session_dies() {
    need_kernel!();
    for signal in [Signal::SIGHUP, Signal::SIGKILL] {
        let hosts = Hosts::new();
        let line = format!("{} \"$@\" && echo done && sleep 60", binary().display());
        let session = hosts.server.namespace.run(|| {
            // Who runs the tests under nohup hands on that SIGHUP is ignored.
            let mut session = Command::new("env");
            session.args(["--default-signal=HUP", "setsid", "sh", "-c", &line, "sh"]);
            session.args(LIMIT);
            session.args(["--try", "5s"]).stdout(Stdio::piped()).spawn()
        });
        let mut session = session.unwrap().unwrap();
        let output = BufReader::new(session.stdout.take().unwrap());
        // Only up to that line: the end of the output comes when nobody has it open.
        let mut lines = output.lines().map(Result::unwrap);
        assert!(lines.any(|line| line == "done"), "attached");
        killpg(Pid::from_raw(session.id().try_into().unwrap()), signal).unwrap();
        session.wait().unwrap();
        let ends = try_until(&hosts).unwrap();
        assert_eq!(lines.next(), None, "the holder has let go of the output");
        assert_eq!(passed(&hosts), 3, "{signal}: the trial goes on");
        eventually("it is undone", || !has_program(&hosts));
        let late = SystemTime::now().duration_since(ends).unwrap();
        assert!(late < LATE, "{signal}: {late:?}");
        assert_eq!(passed(&hosts), 10);
        eventually("nothing is left", || !hosts.pins().exists());
        expect_nothing_left(&hosts);
    }
}

#[test]
fn the_end_of_the_holder_is_the_end_of_the_trial() {
    need_kernel!();
    let hosts = Hosts::new();
    attach(&hosts, "1h");
    // Of a terminal that it does not have.
    kill(holder(&hosts), Signal::SIGHUP).unwrap();
    thread::sleep(Duration::from_millis(50));
    assert!(try_until(&hosts).is_some());

    kill(holder(&hosts), Signal::SIGKILL).unwrap();
    eventually("the program is off", || !has_program(&hosts));
    assert_eq!(passed(&hosts), 10);
    assert_eq!(
        hosts.json(&["status", "--json"]),
        serde_json::json!({"interfaces": []})
    );
    hosts
        .limiter(&["keep", "eth0"])
        .expect_error(1, &["nothing to keep"]);
    attach(&hosts, "1h");
    assert_eq!(passed(&hosts), 3, "the next attach works");

    kill(holder(&hosts), Signal::SIGTERM).unwrap();
    eventually("it is undone before its time", || !hosts.pins().exists());
    expect_nothing_left(&hosts);
}

#[test]
fn other_commands_work_meanwhile() {
    need_kernel!();
    let hosts = Hosts::new();
    attach(&hosts, "1h");
    let until = try_until(&hosts);
    assert_eq!(passed(&hosts), 3);
    hosts
        .limiter(&["attach", "eth0", "--rate", "9"])
        .expect_error(1, &["already"]);
    let check = hosts.json(&["check", "eth0", "192.0.2.2", "--json"]);
    assert_eq!(check["limits"][0]["passed_packets"], 3, "{check}");
    for rate in ["2/h", "3/h"] {
        hosts.limiter(&["set", "eth0", "--rate", rate]).expect(0);
        assert_eq!(hosts.status()["limits"][0]["rate"], rate);
        assert_eq!(try_until(&hosts), until, "the trial is not lost");
    }
    hosts.limiter(&["top", "eth0", "--once"]).expect(0);
    hosts.limiter(&["reset", "eth0", "--all"]).expect(0);
    assert_eq!(passed(&hosts), 3);
    hosts.limiter(&["detach", "eth0"]).expect(0);
    assert_eq!(passed(&hosts), 10);
    expect_nothing_left(&hosts);
}

/// The old holder wakes up when another attachment has the same name, interface and place.
#[test]
fn an_old_holder_leaves_a_newer_attachment_alone() {
    need_kernel!();
    for again in [&LIMIT[..], &[&LIMIT[..], &["--try", "1h"]].concat()] {
        let hosts = Hosts::new();
        attach(&hosts, "1h");
        let old = holder(&hosts);
        hosts.limiter(&["detach", "eth0"]).expect(0);
        // It may have gone already.
        let _ = kill(old, Signal::SIGSTOP);
        hosts.limiter(again).expect(0);
        let until = try_until(&hosts);
        assert_eq!(until.is_some(), again.contains(&"--try"));
        let _ = kill(old, Signal::SIGCONT);
        eventually("the old holder is gone", || {
            !holders(&hosts.pins()).contains(&old)
        });
        assert_eq!(passed(&hosts), 3, "the new one limits");
        assert_eq!(try_until(&hosts), until);
    }
}

#[test]
fn several_interfaces_or_none() {
    need_kernel!();
    let hosts = Hosts::new();
    let generic = ["--rate", "5", "--mode", "generic", "--try", "1h"];
    let failed = hosts.limiter(&[&["attach", "eth0", "eth9"][..], &generic].concat());
    failed.expect(1);
    expect_nothing_left(&hosts);

    hosts
        .limiter(&[&["attach", "eth0", "lo"][..], &generic].concat())
        .expect(0);
    let on_trial = || {
        let status = hosts.json(&["status", "--json"]);
        let interfaces = status["interfaces"].as_array().unwrap().iter();
        interfaces
            .map(|interface| interface["try_until"].is_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(on_trial(), [true, true]);
    hosts.limiter(&["keep", "lo"]).expect(0);
    assert_eq!(on_trial(), [true, false]);
    let keep = hosts.limiter(&["keep", "eth9", "eth0"]);
    keep.expect(1);
    assert!(keep.stderr.contains("eth9"), "{keep:#?}");
    assert_eq!(keep.stdout.lines().count(), 1, "{keep:#?}");
    assert_eq!(on_trial(), [false, false]);
    hosts.limiter(&["detach", "--all"]).expect(0);
    expect_nothing_left(&hosts);
}

#[test]
fn at_the_last_moment_it_is_kept_or_too_late() {
    need_kernel!();
    // After `attach` is done, which is some time after the three seconds have begun.
    const MOMENTS: [u64; 12] = [
        400, 2_800, 2_840, 2_880, 2_900, 2_920, 2_940, 2_960, 2_980, 2_990, 3_000, 3_400,
    ];
    let round = |moment: u64| {
        let hosts = Hosts::new();
        attach(&hosts, "3s");
        thread::sleep(Duration::from_millis(moment));
        let keep = hosts.limiter(&["keep", "eth0"]);
        let pins = hosts.pins();
        eventually("the holder is gone", || holders(&pins).is_empty());
        if keep.status == 0 {
            assert!(pins.join("link").exists(), "{keep:#?}");
            assert_eq!(passed(&hosts), 3, "{keep:#?}");
        } else {
            keep.expect_error(1, &["eth0"]);
            assert_eq!(passed(&hosts), 10, "{keep:#?}");
            expect_nothing_left(&hosts);
        }
        keep.status == 0
    };
    let kept: Vec<bool> = thread::scope(|scope| {
        let rounds = MOMENTS.map(|moment| scope.spawn(move || round(moment)));
        rounds.into_iter().map(|r| r.join().unwrap()).collect()
    });
    assert!(kept.contains(&true) && kept.contains(&false), "{kept:?}");
}

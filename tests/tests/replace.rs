//! Only `attach --or-reload` replaces an attachment of a version with another pin layout, and leaves no gap.
//!
//! The tests simulate the other version: they move the pins to the folder of another layout, and rename a map.

use std::{fs, os::fd::AsFd, path::PathBuf, time::Duration};

use limiter_kernel::sys::{bpf, interface};
use limiter_tests::{
    command::{ip, limiter, prepared},
    eventually,
    files::{Folder, at_driver},
    foreign::{Foreign, PLAIN, on_server},
    hosts::{CLIENT, Hosts},
    need, need_kernel, number,
    raw::Raw,
    steps::{End, Fault, Stopped, kill_at_each_step, run_with},
    traffic::{Flood, Traffic},
    trials::{attach as attach_for, has_program, passed},
};

const ATTACH: [&str; 6] = ["attach", "eth0", "--rate", "1/d", "--burst", "10"];
const REPLACED: &str = "replaced another version of limiter (layout";

/// A limit of `burst` packets that gets no token during a test.
fn limit(burst: u64) -> String {
    format!("[[limit]]\nname = \"default\"\nrate = \"1/d\"\nburst = {burst}\n")
}

/// The folder of the server's `eth0` in another layout.
fn pins_in(hosts: &Hosts, layout: u32) -> PathBuf {
    let pins = hosts.pins();
    let of_layout = pins.parent().unwrap().with_file_name(format!("v{layout}"));
    of_layout.join(pins.file_name().unwrap())
}

/// Turns the attachment into one with another layout.
fn age(hosts: &Hosts, layout: u32) -> PathBuf {
    let (pins, other) = (hosts.pins(), pins_in(hosts, layout));
    // Other tests remove the folder of this layout when they find it empty.
    eventually("the attachment has the other layout", || {
        fs::create_dir_all(other.parent().unwrap()).is_ok() && fs::rename(&pins, &other).is_ok()
    });
    fs::rename(other.join("COUNTED"), other.join("COUNTERS")).unwrap();
    other
}

/// The program that the server's interface runs.
fn program(hosts: &Hosts) -> Option<u32> {
    let eth0 = || interface::by_name("eth0");
    let found = hosts.server.namespace.block_on(eth0);
    found.unwrap().unwrap().xdp.map(|xdp| xdp.program_id)
}

fn expect_nothing_left(hosts: &Hosts, situation: &str) {
    eventually("the program is detached", || !has_program(hosts));
    for folder in [hosts.pins(), pins_in(hosts, 6), pins_in(hosts, 99)] {
        assert!(
            !folder.exists(),
            "{situation}: {} is left",
            folder.display()
        );
    }
}

#[test]
fn another_layout_is_replaced_in_one_step_with_full_buckets() {
    need_kernel!();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let file = folder.write("limiter.toml", at_driver(limit(10)));
    // The layouts are of an earlier and of a future version: upgrade and downgrade.
    for layout in [6, 99] {
        hosts.limiter(&ATTACH).expect(0);
        assert_eq!(Traffic::new(&hosts).passed("192.0.2.2", 12), 10);
        let other = age(&hosts, layout);
        let before = program(&hosts);
        let words = [
            "another version",
            "'eth0'",
            &format!("(layout {layout})"),
            "--or-reload",
        ];
        for arguments in [
            &ATTACH[..],
            &["status", "eth0"],
            &["set", "eth0", "--rate", "2/d"],
            &["deny", "add", "eth0", "203.0.113.66"],
            &["keep", "eth0"],
            &["watch", "eth0"],
        ] {
            hosts.limiter(arguments).expect_error(1, &words);
        }
        for other in [&["status"][..], &["doctor", "eth0"]] {
            let output = hosts.limiter(other);
            output.expect(1);
            let text = format!("{}{}", output.stdout, output.stderr);
            assert!(text.contains("another version of limiter"), "{output:#?}");
        }
        assert!(other.join("link").exists() && !hosts.pins().exists());
        assert_eq!(program(&hosts), before);

        let output = hosts.limiter(&["attach", "eth0", "--or-reload", "--config", &file]);
        output.expect(0);
        assert!(
            output.stdout.contains(&format!("{REPLACED} {layout})")),
            "{output:#?}"
        );
        assert_ne!(program(&hosts), before);
        assert_eq!(Traffic::new(&hosts).passed("192.0.2.2", 12), 10);
        assert_eq!(number(&hosts.status()["seen"]["packets"]), 12);
        assert!(!other.exists());
        hosts.run("set eth0 --rate 2/d");
        hosts.run("detach eth0");
        expect_nothing_left(&hosts, "detached");
    }
}

#[test]
fn another_layout_is_left_alone_if_it_cannot_be_replaced() {
    need_kernel!();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    hosts.limiter(&ATTACH).expect(0);
    assert_eq!(passed(&hosts), 10);
    let other = age(&hosts, 6);
    for (wrong, words) in [
        ("[[limit]]\nname = \"default\"\n", "rate"),
        (
            "mode = \"generic\"\n[[limit]]\nname = \"default\"\nrate = \"1/d\"\n",
            "mode is fixed",
        ),
    ] {
        let file = folder.write("wrong.toml", wrong);
        let arguments = ["attach", "eth0", "--or-reload", "--config", &file];
        let outcome = hosts.limiter(&arguments);
        outcome.expect(1);
        assert!(outcome.stderr.contains(words), "{outcome:#?}");
        assert!(other.join("link").exists() && !hosts.pins().exists());
    }
    assert_eq!(passed(&hosts), 0);
    hosts.run("detach eth0");
    expect_nothing_left(&hosts, "detached");
}

#[test]
fn detach_of_another_layout_restores_the_chained_program() {
    need_kernel!();
    let test = "detach_of_another_layout_restores_the_chained_program";
    if !need::tool(test, "bpftool") {
        return;
    }
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let file = folder.write("limiter.toml", at_driver(limit(10)));
    let foreign = Foreign::load(PLAIN);
    foreign.attach(&hosts, "xdpdrv");
    hosts
        .limiter(&[&ATTACH[..], &["--chain"]].concat())
        .expect(0);
    age(&hosts, 6);
    hosts
        .limiter(&["attach", "eth0", "--or-reload", "--config", &file])
        .expect_error(1, &["--chain", "limiter detach eth0"]);
    hosts.run("detach eth0");
    assert_eq!(on_server(&hosts), Some(("native", foreign.id)));
}

#[test]
fn detach_leaves_a_folder_locked_by_another_command() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.limiter(&ATTACH).expect(0);
    let other = age(&hosts, 6);
    // Simulates an `attach` that holds the lock and has pinned nothing yet.
    let pins = hosts.pins();
    fs::create_dir(&pins).unwrap();
    let lock = fs::File::open(&pins).unwrap();
    lock.lock().unwrap();
    hosts.run("detach eth0");
    assert!(!other.exists() && pins.exists());
    drop(lock);
    fs::remove_dir(&pins).unwrap();
    expect_nothing_left(&hosts, "detached");
}

/// An `attach` that has made its folder, and not yet locked it, makes it again. Nothing was attached.
#[test]
fn detach_that_finds_an_empty_folder_has_changed_nothing() {
    need_kernel!();
    let hosts = Hosts::new();
    fs::create_dir_all(hosts.pins()).unwrap();
    let detached = hosts.run("detach eth0");
    assert!(detached.starts_with("eth0: unchanged: "), "{detached}");
    expect_nothing_left(&hosts, "detached");
}

#[test]
fn no_packet_passes_unlimited_while_a_layout_is_replaced() {
    const ROUNDS: u64 = 8;
    need_kernel!();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let file = folder.write("limiter.toml", at_driver(limit(10)));
    hosts.limiter(&ATTACH).expect(0);
    let frame = hosts.frame(CLIENT).bytes();
    let of_flood = |server: &Raw| {
        let frames = server.arrived().into_iter();
        frames.filter(|other| *other == frame).count() as u64
    };
    let server = Raw::open(&hosts.server);
    let mut arrived = 0;
    let flood = Flood::start(&hosts, vec![frame.clone()], Duration::ZERO);
    let mut before = 0;
    for _ in 0..ROUNDS {
        eventually("the bucket is empty", || {
            number(&hosts.status()["dropped"]["packets"]) > 1_000
        });
        before += 10;
        arrived += of_flood(&server);
        age(&hosts, 6);
        let attach = ["attach", "eth0", "--or-reload", "--config", &file];
        hosts.limiter(&attach).expect(0);
    }
    eventually("the last bucket is empty", || {
        number(&hosts.status()["dropped"]["packets"]) > 1_000
    });
    let sent = flood.end();
    arrived += of_flood(&server);
    println!("{sent} packets, {arrived} arrived");
    assert_eq!(arrived, before + 10, "one burst for each program");
    hosts.run("detach eth0");
}

#[test]
fn killed_replacement_keeps_limiting_and_the_next_command_finishes() {
    need_kernel!();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let file = folder.write("limiter.toml", at_driver(limit(3)));
    let change = ["attach", "eth0", "--or-reload", "--config", &file];
    let (mut before, mut after) = (0, 0);
    let begin = || {
        hosts.run("attach eth0 --rate 1/d --burst 3");
        assert_eq!(passed(&hosts), 3);
        age(&hosts, 6);
    };
    kill_at_each_step(&hosts, &change, begin, |step, situation| {
        assert!(has_program(&hosts), "{situation}");
        // The old program has no tokens left. The new one has three.
        match passed(&hosts) {
            0 => before += 1,
            3 => after += 1,
            other => panic!("{situation}: {other} of 10 passed"),
        }
        assert_eq!(passed(&hosts), 0, "{situation}: still limiting");
        if step % 2 == 0 {
            hosts.limiter(&change).expect(0);
            assert_eq!(hosts.status()["limits"][0]["burst"], "3", "{situation}");
        }
        hosts.run("detach eth0");
        expect_nothing_left(&hosts, situation);
    });
    assert!(before > 3 && after > 3, "{before} and {after}");
}

/// The version before ran in another mode than settings ask for, and in generic mode although native was possible.
#[test]
fn replaced_version_in_generic_mode_stays_in_it_and_status_says_so() {
    need_kernel!();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    for mode in ["xdp", "auto", "generic"] {
        hosts.run("attach eth0 --rate 1/d --burst 10 --mode generic");
        age(&hosts, 6);
        let file = folder.write("limiter.toml", format!("mode = \"{mode}\"\n{}", limit(3)));
        let change = ["attach", "eth0", "--or-reload", "--config", &file];
        hosts.limiter(&change).expect(0);
        let status = hosts.status();
        assert_eq!(status["mode"], "generic");
        let is_native = status["fallback"].is_null();
        assert_eq!(is_native, mode == "generic", "{mode}: {status}");
        let text = hosts.run("status eth0");
        assert_eq!(
            text.contains("NOT native: the version before"),
            mode != "generic",
            "{text}"
        );
        assert_eq!(passed(&hosts), 3);
        // The same file can be applied again.
        hosts.limiter(&change).expect(0);
        hosts.run("detach eth0");
    }
    hosts.run("attach eth0 --rate 1/d --burst 10 --mode native");
    age(&hosts, 6);
    let file = folder.write("limiter.toml", format!("mode = \"xdp\"\n{}", limit(3)));
    let change = ["attach", "eth0", "--or-reload", "--config", &file];
    hosts.limiter(&change).expect(0);
    let status = hosts.status();
    assert!(
        status["mode"] == "native" && status["fallback"].is_null(),
        "{status}"
    );
    hosts.run("detach eth0");
}

/// Runs `command`, and runs `meanwhile` before its lock number `number`, from 0.
fn stopped_before_lock(
    hosts: &Hosts,
    command: &[&str],
    number: usize,
    meanwhile: impl Fn() + Sync,
) -> Stopped {
    let mut locks = 0;
    let run = || {
        run_with(&mut prepared(command), |call| {
            if call.name == "lock" {
                if locks == number {
                    meanwhile();
                }
                locks += 1;
            }
            Fault::None
        })
    };
    let stopped = hosts.server.namespace.run(run).unwrap().unwrap();
    assert!(locks > number, "{command:?} took only {locks} locks");
    stopped
}

/// Both commands are started for the same other version. One works, while the other waits.
#[test]
fn second_of_two_replacements_keeps_what_the_first_one_attached() {
    need_kernel!();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let files = [3, 4].map(|burst| folder.write(&format!("{burst}.toml"), at_driver(limit(burst))));
    let change = files
        .each_ref()
        .map(|file| ["attach", "eth0", "--or-reload", "--config", file]);
    // The second lock is that of the new folder.
    for number in [0, 1] {
        hosts.limiter(&ATTACH).expect(0);
        assert_eq!(passed(&hosts), 10);
        age(&hosts, 6);
        let stopped = stopped_before_lock(&hosts, &change[1], number, || {
            if number == 0 {
                limiter(&change[0]).expect(0);
            } else {
                // The first command holds the lock of the old folder.
                limiter(&change[0]).expect_error(1, &["another limiter command has held the lock"]);
            }
        });
        assert_eq!(stopped.end, End::Done(0), "{number}: {stopped:?}");
        assert!(has_program(&hosts) && hosts.pins().join("link").exists());
        assert_eq!(
            hosts.status()["limits"][0]["burst"],
            "4",
            "the last command"
        );
        hosts.run("detach eth0");
        expect_nothing_left(&hosts, "detached");
    }
}

/// Several commands find that nothing is limited any more: a trial is over, or another tool took the program off. The first
/// one attaches anew, and no other one removes that attachment.
#[test]
fn command_that_clears_leftovers_keeps_what_another_one_attached_meanwhile() {
    need_kernel!();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let file = folder.write("limiter.toml", at_driver(limit(4)));
    let or_reload = ["attach", "eth0", "--or-reload", "--config", &file];
    let is_over = || {
        attach_for(&hosts, "1s");
        eventually("the trial is over", || {
            let status = hosts.limiter("status eth0");
            status.stderr.contains("the trial on 'eth0' ended at")
        });
    };
    let taken_off = || {
        hosts.limiter(&ATTACH).expect(0);
        let link = bpf::open_pin(&hosts.pins().join("link")).unwrap();
        bpf::link_detach(link.as_fd()).unwrap();
    };
    // With another configuration, and with the same one.
    for (command, status, words) in [
        (
            &["attach", "eth0", "--rate", "2/d"][..],
            1,
            "attached to 'eth0' already",
        ),
        (&ATTACH, 0, "unchanged"),
        (&or_reload, 0, "burst"),
    ] {
        is_over();
        let meanwhile = || limiter(&ATTACH).expect(0);
        let stopped = stopped_before_lock(&hosts, command, 0, meanwhile);
        assert_eq!(stopped.end, End::Done(status), "{stopped:?}");
        assert!(format!("{stopped:?}").contains(words), "{stopped:?}");
        assert!(has_program(&hosts) && hosts.pins().join("link").exists());
        // Buckets that were spent stay so: the first attachment is there still.
        let burst = if command == or_reload { "4" } else { "10" };
        assert_eq!(hosts.status()["limits"][0]["burst"], burst);
        hosts.run("detach eth0");
    }
    taken_off();
    let stopped = stopped_before_lock(&hosts, &or_reload, 0, || {
        limiter("detach eth0").expect(0);
        limiter(&ATTACH).expect(0);
    });
    assert_eq!(stopped.end, End::Done(0), "{stopped:?}");
    assert_eq!(hosts.status()["limits"][0]["burst"], "4");
    assert!(
        stopped.stdout.contains("burst"),
        "reloaded, not attached: {stopped:?}"
    );
    hosts.run("detach eth0");
    expect_nothing_left(&hosts, "detached");
}

/// Two commands attach at once for the first time. Both succeed.
#[test]
fn second_of_two_first_attaches_with_or_reload_applies_its_configuration() {
    need_kernel!();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let file = folder.write("limiter.toml", at_driver(limit(4)));
    let command = ["attach", "eth0", "--or-reload", "--config", &file];
    let stopped = stopped_before_lock(&hosts, &command, 0, || limiter(&ATTACH).expect(0));
    assert_eq!(stopped.end, End::Done(0), "{stopped:?}");
    assert_eq!(hosts.status()["limits"][0]["burst"], "4");
    hosts.run("detach eth0");
    expect_nothing_left(&hosts, "detached");
}

/// The second interface has another version that cannot be replaced in another mode. The first one is reloaded before, and
/// then goes back.
#[test]
fn reload_is_undone_if_another_interface_cannot_be_replaced() {
    need_kernel!();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let file = folder.write("new.toml", format!("mode = \"native\"\n{}", limit(4)));
    hosts.run("attach eth0 --rate 1/d --burst 10 --mode generic");
    let other = age(&hosts, 6);
    ip(
        &hosts.server.namespace,
        "link add far type veth peer name farther",
    );
    hosts.run("attach far --rate 1/d --burst 10 --mode native");
    let outcome = hosts.limiter(&["attach", "far,eth0", "--or-reload", "--config", &file]);
    outcome.expect(1);
    for words in [
        "far: the former settings are in force again",
        "mode is fixed",
    ] {
        assert!(outcome.stderr.contains(words), "{outcome:#?}");
    }
    assert!(other.join("link").exists());
    let far = hosts.json("status far --json");
    assert_eq!(far["interfaces"][0]["limits"][0]["burst"], "10");
    hosts.run("detach eth0 far");
}

/// An interface was renamed, and another one has its name and another version. The pins of the renamed one stay.
#[test]
fn replacement_keeps_the_attachment_of_a_renamed_interface() {
    need_kernel!();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let file = folder.write("new.toml", at_driver(limit(4)));
    hosts.limiter(&ATTACH).expect(0);
    let other = age(&hosts, 6);
    let server = &hosts.server.namespace;
    ip(server, "link add name wan type veth peer name far");
    ip(server, "link set eth0 name eth1");
    ip(server, "link set wan name eth0");
    hosts.limiter(&ATTACH).expect(0);
    let current = hosts.pins();
    assert!(other.join("link").exists() && current.join("link").exists());
    ip(server, "link set eth0 name eth2");
    ip(server, "link set eth1 name eth0");
    let change = ["attach", "eth0", "--or-reload", "--config", &file];
    hosts.limiter(&change).expect_error(1, &["'eth2' now"]);
    assert!(other.join("link").exists() && current.join("link").exists());
    hosts.run("detach eth2");
    hosts.limiter(&change).expect(0);
    hosts.run("detach eth0");
    expect_nothing_left(&hosts, "detached");
}

//! Only `attach --or-reload` replaces an attachment of a version with another pin layout, and leaves no gap.
//!
//! The tests simulate the other version: they move the pins to the folder of another layout, and rename a map.

use std::{fs, path::PathBuf, time::Duration};

use limiter_tests::{
    eventually,
    files::Folder,
    foreign::{Foreign, PLAIN, on_server},
    hosts::{CLIENT, Hosts},
    need, need_kernel, number,
    raw::Raw,
    steps::kill_at_each_step,
    traffic::{Flood, Traffic},
    trials::{has_program, passed},
};
use limiter_user::kernel::sys::interface;

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
    fs::create_dir_all(other.parent().unwrap()).unwrap();
    fs::rename(&pins, &other).unwrap();
    fs::rename(other.join("COUNTED"), other.join("COUNTERS")).unwrap();
    other
}

/// The program that the server's interface runs.
fn program(hosts: &Hosts) -> Option<u32> {
    let eth0 = || interface::by_name("eth0");
    let found = hosts.server.namespace.block_on(eth0);
    found.unwrap().unwrap().xdp.map(|xdp| xdp.program_id)
}

fn expect_nothing_left(hosts: &Hosts, at: &str) {
    eventually("the program is detached", || !has_program(hosts));
    for folder in [hosts.pins(), pins_in(hosts, 6), pins_in(hosts, 99)] {
        assert!(!folder.exists(), "{at}: {} is left", folder.display());
    }
}

#[test]
fn another_layout_is_replaced_in_one_step_with_full_buckets() {
    need_kernel!();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let file = folder.write("limiter.toml", limit(10));
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
    let file = folder.write("limiter.toml", limit(10));
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
    let file = folder.write("limiter.toml", limit(10));
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
    let file = folder.write("limiter.toml", limit(3));
    let change = ["attach", "eth0", "--or-reload", "--config", &file];
    let (mut before, mut after) = (0, 0);
    let begin = || {
        hosts.run("attach eth0 --rate 1/d --burst 3");
        assert_eq!(passed(&hosts), 3);
        age(&hosts, 6);
    };
    kill_at_each_step(&hosts, &change, begin, |step, at| {
        assert!(has_program(&hosts), "{at}");
        // The old program has no tokens left. The new one has three.
        match passed(&hosts) {
            0 => before += 1,
            3 => after += 1,
            other => panic!("{at}: {other} of 10 passed"),
        }
        assert_eq!(passed(&hosts), 0, "{at}: still limiting");
        if step % 2 == 0 {
            hosts.limiter(&change).expect(0);
            assert_eq!(hosts.status()["limits"][0]["burst"], "3", "{at}");
        }
        hosts.run("detach eth0");
        expect_nothing_left(&hosts, at);
    });
    assert!(before > 3 && after > 3, "{before} and {after}");
}

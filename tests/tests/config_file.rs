//! The command reports all errors in a configuration file at once, and the output of `config show` is a valid file.

use std::{
    net::Ipv4Addr,
    process::{Command, Stdio},
};

use fastrand::Rng;
use limiter_config::{Control, file};
use limiter_tests::{
    command::{Outcome, binary, ip, limiter},
    files::Folder,
    hosts::Hosts,
    need, need_kernel,
    random::{seed, settings},
};
use limiter_user::cli::PRESETS;
use nix::sys::{
    resource::{Usage, UsageWho, getrusage},
    time::TimeValLike,
};
use serde_json::Value;

/// Nearly all settings that a file can contain.
const EVERYTHING: &str = r#"
interfaces = ["eth0"]
mode = "native"
max_sources = "3k"
new_sources = "500/s"
new_sources_burst = 700
exempt = ["established", "control"]
malformed = "pass"
shadow = true

[lists]
allow = ["198.51.100.0/24", "2001:db8::/32"]
deny = ["203.0.113.1", "203.0.113.2", "203.0.113.3", "203.0.113.4", "203.0.113.5", "203.0.113.6", "203.0.113.66"]
partners = { file = "partners.txt" }
empty = []

[[limit]]
name = "ssh"
match = { protocol = "tcp", destination_port = 22, tcp_flags = "syn" }
rate = "5/m"
burst = 5

[[limit]]
name = "dns"
match = { protocol = "udp", destination_port = [53, "5300-5353"], unless = ["partners", "empty"] }
key = "/24,/48,destination_port"
rate = "20/s"
burst = "1.5k"
cost = 2
shadow = true

[[limit]]
name = "window"
match = { fragments = false, ip_version = 4, source_port = 53, payload_length = ["0-20", 60], established = false }
algorithm = "fixed-window"
rate = "300/1m"

[[limit]]
name = "partners"
match = { source = "partners" }
key = "interface"
rate = "100mbit"
burst = "1mb"
"#;

/// The status without the fields that differ between two attachments of equal settings.
fn what_is_the_same(hosts: &Hosts) -> Value {
    let mut status = hosts.status();
    let object = status.as_object_mut().unwrap();
    for other in ["program_id", "attached_at", "file", "ifindex"] {
        object.remove(other);
    }
    status
}

fn shown(hosts: &Hosts) -> String {
    hosts.run("config show eth0")
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let folder = Folder::new();
    let text =
        "interfces = [\"eth0\"]\nmode = \"fast\"\n[[limit]]\nname = \"ssh\"\nrate = \"5/x\"\n";
    let check = limiter(&["config", "check", &folder.write("wrong.toml", text)]);
    check.expect(1);
    assert_eq!(check.stdout, "");
    let lines: Vec<_> = check.stderr.lines().collect();
    let wanted = [
        "wrong.toml, line 1: 'interfces' is not a key of the file: did you mean 'interfaces'?",
        "wrong.toml, line 2: mode: 'fast' is not a valid value",
        "wrong.toml, line 5: rate: 'x' is not a period",
        "wrong.toml has 3 mistakes",
    ];
    assert_eq!(lines.len(), wanted.len(), "{check:#?}");
    for (line, wanted) in lines.iter().zip(wanted) {
        assert!(line.contains(wanted), "wanted '{wanted}': {check:#?}");
    }
}

/// The settings have every key that has an effect in a test-run.
#[test]
fn random_settings_read_back() {
    let mut rng = Rng::with_seed(seed(0x5e77_1265));
    for _ in 0..500 {
        let mut settings = settings::settings(&mut rng, 4_000);
        // Limits on what is not exempt have no effect.
        let (exempt, default) = (settings.exempt, Control::default());
        if !exempt.has_control() {
            settings.control = default;
        }
        if !exempt.control {
            (settings.control.rate, settings.control.burst) = (default.rate, default.burst);
        }
        if !exempt.has_routing() {
            settings.control.routing = default.routing;
        }
        let shown = file::show(&[], &settings);
        let read = file::parse(&shown, ".".as_ref()).map(|file| file.settings);
        assert_eq!(read, Ok(settings), "{shown}");
    }
}

#[test]
fn config_check_accepts_a_valid_file_and_refuses_a_missing_one() {
    let folder = Folder::new();
    folder.write("partners.txt", "192.0.2.0/24\n192.0.2.0/24\n");
    let sound = folder.write("sound.toml", EVERYTHING);
    let check = limiter(&["config", "check", &sound]);
    check.expect(0);
    assert!(
        check.stdout.contains("valid: 4 limits, 10 prefixes"),
        "{check:#?}"
    );
    let warnings = [
        "a flood of new sources fills the table for limit",
        "without a burst, 300/m now means up to 300 packets",
        "a TCP connection gets about",
    ];
    let is_warning = |line: &str| warnings.iter().any(|warning| line.contains(warning));
    assert!(check.stderr.lines().all(is_warning), "{check:#?}");
    let columns = |line: &str| {
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let rows: Vec<_> = check.stdout.lines().map(columns).collect();
    let window = ["window", "300/m", "300", "/32,/64"].map(str::to_owned);
    assert!(rows.contains(&window.to_vec()), "{check:#?}");

    let missing = limiter(&["config", "check", &folder.path("missing")]);
    missing.expect_error(1, &["missing cannot be read", "No such file"]);
    limiter(&["config", "check"]).expect_error(2, &["FILE"]);
}

/// The maps in the kernel are equal too.
#[test]
fn config_show_output_makes_an_equal_attachment() {
    need_kernel!();
    let folder = Folder::new();
    folder.write("partners.txt", "192.0.2.0/24\n2001:db8:7::/48\n");
    let mut files = PRESETS.map(|(_, text)| text).to_vec();
    files.push(EVERYTHING);
    let (here, elsewhere) = (Hosts::new(), Hosts::new());
    for (number, text) in files.iter().enumerate() {
        let first = folder.write(&format!("{number}.toml"), text);
        here.run(&["attach", "--config", &first]);
        let printed = shown(&here);
        let second = folder.write(&format!("{number}-shown.toml"), &printed);
        limiter(&["config", "check", &second]).expect(0);
        elsewhere.run(&["attach", "--config", &second]);
        assert_eq!(shown(&elsewhere), printed, "{text}");
        let status = [&here, &elsewhere].map(what_is_the_same);
        assert_eq!(status[0], status[1], "{text}");
        // Reloading one file over the other changes nothing.
        let reload = elsewhere.run(&["reload", "eth0", "--config", &first]);
        assert!(reload.contains("unchanged"), "{reload}");
        for hosts in [&here, &elsewhere] {
            hosts.limiter(&["detach", "eth0"]).expect(0);
        }
    }
}

#[test]
fn flags_and_file_make_equal_attachments() {
    need_kernel!();
    let folder = Folder::new();
    let (by_flags, by_file) = (Hosts::new(), Hosts::new());
    for (flags, text) in [
        (
            "--rate 300/m --burst 2k --key interface --shadow --malformed pass --allow 192.0.2.0/24 --allow 2001:db8::/32 --deny 203.0.113.66 --max-sources 2k --new-sources 100/s --new-sources-burst 50 --exempt established,control --mode auto",
            "shadow = true\nmalformed = \"pass\"\nmax_sources = 2000\nnew_sources = \"100/s\"\nnew_sources_burst = 50\n\
             exempt = [\"control\", \"established\"]\n[lists]\nallow = [\"2001:db8::/32\", \"192.0.2.0/24\"]\ndeny = [\"203.0.113.66\"]\n\
             [[limit]]\nname = \"default\"\nkey = \"interface\"\nrate = \"300/m\"\nburst = \"2k\"",
        ),
        (
            "--rate 1.5mbit --burst 1mb --key /24,/48 --mode generic --new-sources none",
            "mode = \"generic\"\nnew_sources = \"none\"\n[[limit]]\nname = \"default\"\nkey = \"/24,/48\"\n\
             rate = \"1.5mbit\"\nburst = \"1mb\"",
        ),
    ] {
        by_flags.run(&format!("attach eth0 {flags}"));
        let file = folder.write("limiter.toml", text);
        by_file.run(&["attach", "eth0", "--config", &file]);
        assert_eq!(shown(&by_flags), shown(&by_file));
        assert_eq!(what_is_the_same(&by_flags), what_is_the_same(&by_file));
        assert_eq!(by_file.status()["file"], file.as_str());
        for hosts in [&by_flags, &by_file] {
            hosts.limiter(&["detach", "eth0"]).expect(0);
        }
    }
}

/// The changes are by `set` and the list commands.
#[test]
fn config_show_includes_changes_since_attach() {
    need_kernel!();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    folder.write("partners.txt", "192.0.2.0/24\n");
    let file = folder.write("limiter.toml", EVERYTHING);
    hosts.run(&["attach", "--config", &file]);
    let before = shown(&hosts);
    for command in [
        "set eth0 --limit ssh --rate 6/m",
        "set eth0 --limit dns --shadow off",
        "set eth0 --shadow off --malformed drop",
        "tier replace eth0 partners 192.0.2.128/25",
        "deny remove eth0 203.0.113.66",
    ] {
        hosts.run(command);
    }
    let wanted = before
        .replace("rate = \"5/m\"", "rate = \"6/m\"")
        .replace("cost = 2\nshadow = true\n", "cost = 2\n")
        .replace("malformed = \"pass\"\nshadow = true\n", "")
        .replace("[\"192.0.2.0/24\"]", "[\"192.0.2.128/25\"]")
        .replace("    \"203.0.113.66\",\n", "");
    assert_eq!(shown(&hosts), wanted);
}

#[test]
fn file_without_interfaces_or_with_errors_attaches_nothing() {
    need_kernel!();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let limit = "[[limit]]\nname = \"a\"\nrate = 5\n";
    let none = folder.write("none.toml", limit);
    let attach = hosts.limiter(&["attach", "--config", &none]);
    attach.expect_error(2, &["none.toml names no interfaces"]);
    let wrong = folder.write("wrong.toml", format!("{limit}brust = 5\n"));
    let text = format!("interfaces = [\"eth0\", \"eth9\"]\n{limit}");
    let gone = folder.write("gone.toml", text);
    for (arguments, words) in [
        (
            &["attach", "eth0", "--config", &wrong][..],
            ["line 4: ", "'burst'"],
        ),
        (&["attach", "--config", &gone], ["no interface", "'eth9'"]),
    ] {
        let refused = hosts.limiter(arguments);
        refused.expect(1);
        for word in words {
            assert!(refused.stderr.contains(word), "{refused:#?}");
        }
    }
    let status = hosts.json("status --json");
    assert_eq!(status["interfaces"], serde_json::json!([]));
    // The command line and the file name different interfaces.
    hosts.run(&["attach", "eth0", "--config", &gone]);
    assert_eq!(hosts.status()["limits"][0]["name"], "a");
}

/// A pipe may never end, and some devices have no end.
#[test]
fn only_regular_files_are_read() {
    let folder = Folder::new();
    let fifo = folder.path("fifo");
    nix::unistd::mkfifo(fifo.as_str(), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let with_list = |path: &str| {
        let text = format!("[lists]\ndeny = {{ file = \"{path}\" }}\n");
        folder.write("list.toml", text)
    };
    for path in [fifo.as_str(), "/dev/zero", "/dev/null"] {
        for arguments in [
            &["config", "check", path][..],
            &["config", "check", &with_list(path)],
            &["attach", "none0", "--config", path],
            &["reload", "none0", "--config", path],
            &["deny", "add", "none0", "--file", path],
            &["agent", "--store", "redis://none", "--password-file", path],
        ] {
            let mut command = Command::new("timeout");
            command.arg("30").arg(binary()).args(arguments);
            let output = command.stdin(Stdio::null()).output();
            let outcome = Outcome::of(arguments.join(" "), output.unwrap());
            outcome.expect(1);
            assert!(outcome.stderr.contains("regular file"), "{outcome:#?}");
        }
    }
    // A link to a file is a file.
    let file = folder.write("sound.toml", "[[limit]]\nname = \"all\"\nrate = 5\n");
    let link = folder.path("link.toml");
    std::os::unix::fs::symlink(file, &link).unwrap();
    limiter(&["config", "check", &link]).expect(0);
}

#[test]
fn long_files_are_read_in_linear_time() {
    const LIMIT: &str = "[[limit]]\nname = \"all\"\nrate = 5\n";
    /// A kind of file, by the number of its parts.
    type File = (&'static str, fn(u32) -> String);
    /// `count` pieces of text.
    fn all(count: u32, line: impl Fn(u32) -> String) -> String {
        (0..count).map(line).collect()
    }
    let folder = Folder::new();
    let files: [File; 4] = [
        ("prefixes", |count| {
            let list = all(count, |i| format!("\"{}\", ", Ipv4Addr::from_bits(i)));
            format!("[lists]\ndeny = [{list}]\n{LIMIT}")
        }),
        ("limits", |count| {
            all(count, |i| format!("[[limit]]\nname = \"l{i}\"\nrate = 5\n"))
        }),
        ("unknown keys", |count| {
            all(count, |i| format!("k{i} = 1\n")) + LIMIT
        }),
        ("open brackets", |count| "k = [\n".repeat(count as usize)),
    ];
    for (title, file) in files {
        // Measures processor time, because other tests run at the same time.
        let time = |count: u32| {
            let path = folder.write("long.toml", file(count));
            let before = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
            let status = limiter(&["config", "check", &path]).status;
            assert!([0, 1].contains(&status), "{title}: status {status}");
            let after = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
            let milliseconds = |usage: Usage| usage.user_time().num_milliseconds();
            milliseconds(after) - milliseconds(before)
        };
        let (short, long) = (time(1_000), time(16_000));
        // The input is sixteen times as long: linear time grows by 16, quadratic time by 256.
        let most = 80 * short.max(10);
        assert!(long < most, "{title}: {short} ms, then {long} ms");
    }
}

/// Otherwise, text from a file or the command line could reorder or hide parts of a message.
#[test]
fn unprintable_characters_are_escaped_in_messages() {
    let folder = Folder::new();
    let odd = "a\u{202e}b\u{200b}c\u{ad}d\u{2066}e\u{feff}f\u{e0001}g\u{2028}h";
    let key = format!("\"{odd}\" = 1\n[[limit]]\nname = \"{odd}\"\nrate = \"{odd}\"\n");
    let file = folder.write("odd.toml", key);
    let named = folder.write(&format!("{odd}.toml"), "rate = 5\n");
    let sound = folder.write(&format!("{odd}2.toml"), "[[limit]]\nname=\"a\"\nrate=5\n");
    for arguments in [
        &["config", "check", &file][..],
        &["config", "check", &named],
        &["config", "check", &sound],
        &["config", "check", &folder.path(odd)],
        &["attach", odd, "--rate", "5"],
        &["attach", "eth0", "--rate", odd],
        &["attach", "eth0", odd, "--rate", "5", "--key", odd],
        &["status", odd],
        &["replay", odd, "--rate", "5"],
        &[odd],
    ] {
        let outcome = limiter(arguments);
        let text = format!("{}{}", outcome.stdout, outcome.stderr);
        assert!(text.contains("\\u{202e}"), "{outcome:#?}");
        let is_odd = |c: &char| odd.contains(*c) && !c.is_ascii();
        assert_eq!(text.chars().find(is_odd), None, "{outcome:#?}");
    }
    // Letters of any language are not escaped.
    let file = folder.write("words.toml", "\"日本\" = 1\n");
    let text = limiter(&["config", "check", &file]).stderr;
    assert!(text.contains("日本"), "{text}");
}

/// Without an interface, the usual frame size is used.
#[test]
fn config_check_compares_the_burst_with_the_interface_frame_size() {
    need_kernel!();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let set_mtu = |mtu: &str| {
        let line = format!("link set eth0 mtu {mtu}");
        ip(&hosts.server.namespace, &line);
    };
    let warnings = |interface: &str, mode: &str, burst: u32| {
        let text = format!(
            "interfaces = [\"{interface}\"]\nmode = \"{mode}\"\n[[limit]]\nname = \"a\"\nrate = \"8kbit\"\nburst = \"{burst}b\"\n"
        );
        let file = folder.write("limiter.toml", text);
        let check = hosts.limiter(&["config", "check", &file]);
        check.expect(0);
        let burst = check.stderr.lines().filter(|line| line.contains("burst"));
        burst.map(str::to_owned).collect::<Vec<_>>()
    };
    for (mtu, interface, mode, frame) in [
        ("9000", "eth0", "auto", 9_022),
        ("1000", "eth0", "generic", 65_558),
        ("1000", "eth9", "auto", 1_522),
    ] {
        set_mtu(mtu);
        let situation = format!("{mtu} {interface} {mode}");
        assert_eq!(warnings(interface, mode, frame), [""; 0], "{situation}");
        let too_small = warnings(interface, mode, frame - 1);
        assert_eq!(too_small.len(), 1, "{situation}: {too_small:?}");
        assert!(too_small[0].contains(&format!("{frame}b")), "{too_small:?}");
    }
}

#[test]
fn commands_warn_of_outgoing_limits_whose_meaning_has_changed() {
    need_kernel!();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let text = "direction = \"out\"\n[lists]\ngold = [\"192.0.2.0/24\"]\n[[limit]]\nname = \"a\"\nrate = \"5/s\"\nmatch = { source = \"gold\" }\n";
    let file = folder.write("limiter.toml", text);
    let warning = "for the meaning of before, write destination = \"gold\"";
    let mut lines = vec![vec!["config", "check", &file, "--strict"]];
    if need::tcx() {
        lines.push(vec!["attach", "eth0", "--config", &file]);
        lines.push(vec!["reload", "eth0:out"]);
    }
    for arguments in lines {
        let done = hosts.limiter(&arguments[..]);
        done.expect(0);
        assert!(done.stderr.contains(warning), "{done:#?}");
    }
}

/// The file's own rate is kept: with the default burst, 300/m is another limit than 5/s.
#[test]
fn commands_say_that_the_default_burst_has_changed() {
    need_kernel!();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let text = "[[limit]]\nname = \"a\"\nrate = \"100k/d\"\n";
    let file = folder.write("limiter.toml", text);
    let warning = "limit 'a': without a burst, 100k/d now means up to 100000 packets at once, the amount of the period. In earlier builds of limiter, it meant 1: to keep that, write a burst of 1";
    for arguments in [
        &["config", "check", &file, "--strict"][..],
        &["attach", "eth0", "--config", &file],
        &["reload", "eth0"],
    ] {
        let done = hosts.limiter(arguments);
        done.expect(0);
        assert!(done.stderr.contains(warning), "{done:#?}");
    }
    let shown = shown(&hosts);
    assert!(
        shown.contains("rate = \"100k/d\"") && !shown.contains("burst"),
        "{shown}"
    );
}

#[test]
fn attach_warns_of_settings_without_effect() {
    need_kernel!();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let text = "[lists]\nold = [\"192.0.2.0/24\"]\n[[limit]]\nname = \"a\"\nrate = \"5/s\"\n";
    let file = folder.write("limiter.toml", text);
    let attach = ["attach", "eth0", "--config", &file];
    let strict = hosts.limiter(&[&attach[..], &["--strict"]].concat());
    strict.expect(1);
    assert!(strict.stderr.contains("nothing was changed"), "{strict:#?}");
    let warning = "limiter.toml: warning: no limit uses the list 'old'";
    for arguments in [&attach[..], &["reload", "eth0"]] {
        let done = hosts.limiter(arguments);
        done.expect(0);
        assert!(done.stderr.contains(warning), "{done:#?}");
    }
}

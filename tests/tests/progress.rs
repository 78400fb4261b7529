//! Work of more than a second shows its progress on a terminal, and nothing elsewhere.

use std::{fmt::Write as _, fs};

use limiter_tests::{
    captures::{Captured, pcap},
    files::Folder,
    hosts::Hosts,
    need_kernel,
    packet::{Ends, Segment},
    screen::Screen,
};

/// A capture whose reading takes seconds.
fn capture(packets: u64) -> Vec<u8> {
    let ends = |last: u8| Ends {
        macs: ([2; 6], [4; 6]),
        from: ([198, 51, 100, last], 40_000).into(),
        to: ([192, 0, 2, 1], 443).into(),
    };
    let frames: Vec<_> = (0..50).map(|last| ends(last).tcp(Segment::Syn)).collect();
    let packet = |number: u64| {
        let frame = &frames[usize::try_from(number % 50).unwrap()];
        Captured::whole(1_000_000_000_000 + number * 10_000, frame.clone())
    };
    pcap(&(0..packets).map(packet).collect::<Vec<_>>())
}

/// Prefixes that do not touch each other.
fn list(length: u32) -> String {
    let mut text = String::new();
    for number in 0..length {
        let address = std::net::Ipv4Addr::from(0x0b00_0000 + 2 * number);
        let _ = writeln!(text, "{address}");
    }
    text
}

#[test]
fn long_work_shows_its_progress_on_a_terminal_only() {
    need_kernel!();
    let hosts = Hosts::new();
    let folder = Folder::new();
    let day = folder.write("day.pcap", capture(1_500_000));
    let hour = folder.write("hour.pcap", capture(800_000));
    let long = folder.write("long.txt", list(400_000));
    let attach = format!(
        "[lists]\ndeny = {{ file = \"{long}\" }}\n[[limit]]\nname = \"all\"\nrate = \"5k/s\"\n"
    );
    let attach = folder.write("long.toml", attach);
    let screen = Screen::open(&hosts.server, (100, 24));
    // The command, a word of its progress, and a word of its result.
    for (line, working, done) in [
        (format!("replay {day} --rate 5"), "░", "status 0"),
        (format!("learn --capture {hour}"), "░", "status 0"),
        ("learn eth0 --for 4s".to_owned(), "0 packets", "status 1"),
        (
            format!("attach eth0 --config {attach}"),
            "loading the program and its lists, ",
            "status 0",
        ),
        (
            format!("deny replace eth0 --file {long}"),
            "working on the list, ",
            "status 0",
        ),
        ("detach eth0".to_owned(), "", "status 0"),
    ] {
        screen.limiter(&line);
        let is_done =
            |screen: &Screen| screen.lines().iter().any(|line| line.starts_with("status"));
        screen.wait(&line, |screen| {
            screen.text().contains(working) || is_done(screen)
        });
        let text = screen.text();
        assert!(text.contains(working), "{line}: {text}");
        screen.wait(&line, is_done);
        let text = screen.text();
        assert!(text.contains(done), "{line}: {text}");
        assert!(
            working.is_empty() || !text.contains(working),
            "{line}: {text}"
        );

        // Standard error is a file.
        if line.starts_with("replay") {
            let file = folder.path("errors");
            screen.run(&format!(
                "{} {line} 2> {file}",
                limiter_tests::command::binary().display()
            ));
            screen.wait(&line, is_done);
            assert_eq!(fs::read_to_string(&file).unwrap(), "");
        }
    }
}

//! The demonstration shows the main job.

use std::process::Command;

use limiter_tests::{command::binary, need_kernel};

#[test]
fn demo_passes_as_many_packets_as_calculated() {
    need_kernel!();
    let mut demo = Command::new(env!("CARGO_BIN_EXE_demo"));
    demo.args(["--for", "3s"]).env("LIMITER_BINARY", binary());
    let output = demo.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(text.contains("are as expected: 10 at once"), "{text}");
    let last = text.rsplit("CLIENT").next().unwrap();
    for client in ["192.0.2.10", "192.0.2.66", "2001:db8:0:66::/64"] {
        let row = last.lines().find(|line| line.contains(client)).unwrap();
        let numbers: Vec<u64> = row
            .split_once(client)
            .unwrap()
            .1
            .split_whitespace()
            .map(|number| number.replace(',', "").parse().unwrap())
            .collect();
        let [sent, passed, dropped, allowed] = numbers[..] else {
            panic!("{row}")
        };
        assert_eq!(sent, passed + dropped, "{row}");
        assert!(passed.abs_diff(allowed) <= 1, "{row}");
        match client {
            "192.0.2.10" => assert_eq!(dropped, 0, "the polite client lost something: {row}"),
            _ => assert!(sent > 1_000, "the flood was one: {row}"),
        }
    }
}

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
    for client in ["192.0.2.10", "192.0.2.66", "2001:db8:0:66::/64"] {
        assert!(text.contains(client), "{text}");
    }
}

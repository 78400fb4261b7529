//! The table of sources has a fixed size, which `status` shows.

use std::{thread, time::Duration};

use limiter_tests::{hosts::Hosts, need_kernel, raw::Raw};

#[test]
fn table_memory_is_fixed_and_shown() {
    need_kernel!();
    let hosts = Hosts::new();
    let attach = hosts.run("attach eth0 --rate 1/h --burst 1 --max-sources 100");
    assert!(attach.contains("sources  0 of 100, "), "{attach}");
    let wire = Raw::open(&hosts.client);
    let memory = hosts.status()["sources"]["memory_bytes"].as_u64().unwrap();
    assert!(memory > 100 * 100, "{memory}");
    for i in 0..1_000_u32 {
        let source = std::net::IpAddr::V4((0x0a00_0000 + i).into());
        wire.send(&hosts.frame(source).bytes());
    }
    thread::sleep(Duration::from_millis(200));
    let status = hosts.status();
    assert_eq!(
        status["sources"]["memory_bytes"].as_u64(),
        Some(memory),
        "memory of the filled table"
    );
    assert_eq!(status["sources"]["tracked"], 100);
    assert_eq!(status["passed"]["packets"], 100);
    assert_eq!(
        status["drops"]["new_source"]["packets"], 900,
        "new sources are refused while all buckets are in use"
    );
    assert!(hosts.run("status eth0").contains("--new-sources"));
}

/// Each set of two sources takes one more byte, for its counts, and up to 65,536 sets one line of refused sources. All
/// other memory is independent of the number of sources.
#[test]
fn each_source_takes_32_bytes() {
    need_kernel!();
    let hosts = Hosts::new();
    let memory = |most: u64| {
        let attach = hosts.run(&format!("attach eth0 --rate 5 --max-sources {most}"));
        assert!(attach.contains("MiB of kernel memory"), "{attach}");
        let sources = hosts.status()["sources"].clone();
        assert_eq!(sources["source_bytes"], 32);
        hosts.run("detach eth0");
        assert_eq!(sources["capacity"], most);
        sources["memory_bytes"].as_u64().unwrap()
    };
    const DEFAULT: u64 = 65_536;
    let (default, more) = (memory(DEFAULT), memory(4 * DEFAULT));
    assert!(default > 32 * DEFAULT, "{default}");
    let lines = 64 * (65_536 - DEFAULT / 2);
    assert_eq!(more - default, 3 * DEFAULT * (32 * 2 + 1) / 2 + lines);
}

//! Checks the kernel's messages.

use std::process::Command;

/// Complaints in the kernel's log; none if this process may not read the log.
pub fn complaints() -> Option<Vec<String>> {
    const WORDS: [&str; 8] = [
        "BUG: ",
        "WARNING: ",
        "Call Trace",
        "UBSAN",
        "general protection",
        "soft lockup",
        "refcount_t",
        "unregister_netdevice: waiting",
    ];
    let output = Command::new("dmesg").output().ok()?;
    let log = String::from_utf8_lossy(&output.stdout);
    let lines = log
        .lines()
        .filter(|line| WORDS.iter().any(|word| line.contains(word)));
    output
        .status
        .success()
        .then(|| lines.map(str::to_owned).collect())
}

/// Panics if there are new complaints since `before`.
pub fn expect_no_more(before: &Option<Vec<String>>) {
    let known = before.as_deref().unwrap_or_default();
    let mut now = complaints().unwrap_or_default();
    now.retain(|line| !known.contains(line));
    assert_eq!(now, Vec::<String>::new(), "kernel log");
}

//! Runs servers and load generators of other projects on the hosts of a test.

use std::{
    fs,
    process::{Child, Command, Output, Stdio},
};

use crate::testbed::Host;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{eventually, hosts::on};

/// A transport protocol, with its name in `/proc/net`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// A server that runs on a host until it is dropped.
#[derive(Debug)]
pub struct Service(Child);

impl Service {
    /// Starts `line` on `host`, and waits until it listens on `port` (IPv4).
    pub fn start(host: &Host, line: &[&str], protocol: Protocol, port: u16) -> Self {
        // `timeout` ends the server if the test itself is killed.
        let mut command = Command::new("timeout");
        command.arg("120").args(line);
        command.stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let service = Self(on(host, || command.spawn()).unwrap());
        let condition = format!("{line:?} listens");
        eventually(&condition, || listens(host, protocol, port));
        service
    }
}

/// The beginning of a configuration of nginx that writes into `folder` alone: the package's own folders may not exist.
pub fn nginx_in(folder: &str) -> String {
    let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {folder}/{kind};"));
    format!(
        "user root; daemon off; worker_processes 1; pid {folder}/pid; error_log /dev/null; events {{}}
        http {{ access_log off; {}",
        paths.concat()
    )
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = kill(
            Pid::from_raw(self.0.id().try_into().unwrap()),
            Signal::SIGTERM,
        );
        let _ = self.0.wait();
    }
}

/// True if a process on `host` listens on `port` (IPv4).
fn listens(host: &Host, protocol: Protocol, port: u16) -> bool {
    // States of TCP and of UDP: listening, unconnected (include/net/tcp_states.h).
    let (table, state) = match protocol {
        Protocol::Tcp => ("tcp", "0A"),
        Protocol::Udp => ("udp", "07"),
    };
    let wanted = format!(":{port:04X}");
    on(host, || {
        let table = fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap();
        table.lines().any(|line| {
            let fields: Vec<_> = line.split_whitespace().collect();
            fields.len() > 3 && fields[1].ends_with(&wanted) && fields[3] == state
        })
    })
}

/// A counter of a protocol on `host`, from the kernel.
pub fn counter(host: &Host, protocol: &str, name: &str) -> u64 {
    let read = |file| fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap();
    let table = on(host, || read("snmp") + &read("netstat"));
    let mut lines = table.lines().filter(|line| line.starts_with(protocol));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let mut fields = names.split_whitespace().zip(values.split_whitespace());
    let found = fields.find(|(found, _)| *found == name).unwrap();
    found.1.parse().unwrap()
}

/// Starts `line` on `host`.
pub fn spawn(host: &Host, line: &[&str]) -> Child {
    let mut command = Command::new(line[0]);
    command.args(&line[1..]).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    on(host, || command.spawn()).unwrap()
}

/// Waits for a process, which must succeed. Returns its output.
pub fn printed(child: Child) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = child.wait_with_output().unwrap();
    let text = String::from_utf8(stdout).unwrap();
    assert!(
        status.success(),
        "{status}: {text}{}",
        String::from_utf8_lossy(&stderr)
    );
    text
}

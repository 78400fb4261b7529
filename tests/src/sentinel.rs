//! Runs a real Sentinel, which watches a Redis or Valkey, in a folder that is removed with the test.

use std::{
    fs,
    process::{Child, Stdio},
};

use tempfile::TempDir;

use crate::{
    eventually,
    redis::{Redis, free_port, server, try_cli},
};

/// A running Sentinel.
#[derive(Debug)]
pub struct Sentinel {
    _folder: TempDir,
    process: Child,
    /// The port that it listens on.
    pub port: u16,
}

impl Sentinel {
    /// Starts a Sentinel that watches a primary under the name `main`, and waits until it knows a replica.
    pub fn start(primary: &Redis<'_>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let file = folder.path().join("sentinel.conf");
        let watched = primary.port;
        fs::write(
            &file,
            format!(
                "port {port}\nbind 127.0.0.1\ndir {}\nsentinel monitor main 127.0.0.1 {watched} 1\n\
                 sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 2000\n",
                folder.path().display()
            ),
        )
        .unwrap();
        let mut command = server();
        command.arg(&file).arg("--sentinel");
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let sentinel = Self {
            _folder: folder,
            process: command.spawn().unwrap(),
            port,
        };
        eventually("the Sentinel knows a replica", || {
            let known = try_cli(port, &["SENTINEL", "replicas", "main"]);
            known.contains("runid")
        });
        sentinel
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

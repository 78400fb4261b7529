//! Boots a copy of this machine's files, with systemd as process 1, in the network namespace of a test's host.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use crate::testbed::Host;

use crate::{command::Outcome, eventually, hosts::on};

const SCRIPT: &str = include_str!("container.sh");

/// A container that runs until it is dropped, and leaves nothing on the machine.
#[derive(Debug)]
pub struct Container {
    unshare: Child,
    init: String,
    group: String,
}

impl Container {
    /// Boots a container in the namespace of `host`, with the folder `shared` at `/mnt`.
    pub fn boot(host: &Host, shared: &Path) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let group = format!("limiter-test-{}-{number}", std::process::id());
        let index = host.index.to_string();
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", SCRIPT, "sh", &group, &index]);
        command.env("SCRIPT", SCRIPT).env("SHARED", shared);
        let unshare = on(host, || command.stdin(Stdio::piped()).spawn()).unwrap();
        let mut container = Self {
            init: String::new(),
            unshare,
            group,
        };
        let children = format!("/proc/{0}/task/{0}/children", container.unshare.id());
        // The container's first process is the last of the children. The other child waits for its end.
        let init = || {
            let children = fs::read_to_string(&children).unwrap_or_default();
            let last = children.split_whitespace().last();
            last.unwrap_or_default().to_owned()
        };
        eventually("the container has a process 1", || {
            let comm = fs::read_to_string(format!("/proc/{}/comm", init()));
            comm.is_ok_and(|comm| comm.trim_end() == "systemd")
        });
        container.init = init();
        eventually("systemd has started", || {
            let state = container.run(&["systemctl", "is-system-running"]).stdout;
            ["running", "degraded"].contains(&state.trim_end())
        });
        container
    }

    /// Runs a command in the container.
    pub fn run(&self, line: &[&str]) -> Outcome {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.init, "--mount", "--pid", "--net", "--uts"]);
        command.args(["--ipc", "--cgroup", "--root", "--wd", "--"]);
        command.args(["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"]);
        Outcome::of(line.join(" "), command.args(line).output().unwrap())
    }

    /// Runs a command that must succeed. Returns its output.
    pub fn done(&self, line: &[&str]) -> String {
        let outcome = self.run(line);
        outcome.expect(0);
        outcome.stdout
    }

    /// Writes a file in the container.
    pub fn write(&self, path: &str, text: &str) {
        self.done(&["sh", "-c", "printf %s \"$1\" >\"$2\"", "sh", text, path]);
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // The kernel ends all processes of the container when process 1 ends.
        drop(self.unshare.stdin.take());
        let _ = self.unshare.wait();
        let clear = "mount -t cgroup2 cgroup2 /mnt && cd /mnt && for try in 1 2 3 4 5 6 7 8 9; do
            find \"$1\" -depth -type d -exec rmdir {} + 2>/dev/null && exit; sleep 0.1; done";
        let mut command = Command::new("unshare");
        let cleared = command
            .args(["--mount", "sh", "-c", clear, "sh", &self.group])
            .status();
        drop(cleared);
    }
}

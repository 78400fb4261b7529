//! Runs `limiter watch` beside a test.

use std::{
    io::{BufRead, BufReader, Read},
    os::fd::AsFd,
    process::{Child, ChildStderr, ChildStdout, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

use crate::{command::prepared, hosts::Hosts};

/// A running `limiter watch` or `limiter log` on the server.
#[derive(Debug)]
pub struct Watcher {
    child: Child,
    stdout: Option<BufReader<ChildStdout>>,
    stderr: BufReader<ChildStderr>,
}

/// Result of a watcher.
#[derive(Debug)]
pub struct Ended {
    /// Exit status; -1 if a signal ended it.
    pub status: i32,
    /// Standard output that was not read before.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Longest time to wait for a line, in milliseconds.
const PATIENCE: u16 = 20_000;

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Watcher {
    /// Starts `watch` with these arguments, and waits until it watches.
    pub fn start(hosts: &Hosts, arguments: &[&str]) -> Self {
        Self::start_on(hosts, "eth0", arguments)
    }

    /// Starts `watch` for another attachment.
    pub fn start_on(hosts: &Hosts, attachment: &str, arguments: &[&str]) -> Self {
        let arguments = [&["watch", attachment], arguments].concat();
        let begun = Self::begun(Self::spawn_verb(hosts, &arguments));
        begun.unwrap_or_else(|text| panic!("{text}"))
    }

    /// Starts `log` with these arguments, and waits until it logs.
    pub fn log(hosts: &Hosts, arguments: &[&str]) -> Self {
        let arguments = [&["log", "eth0", "--json"], arguments].concat();
        let begun = Self::begun(Self::spawn_verb(hosts, &arguments));
        begun.unwrap_or_else(|text| panic!("{text}"))
    }

    /// Starts `watch`. Returns its error message if it does not begin to watch.
    pub fn try_to_start(hosts: &Hosts, arguments: &[&str]) -> Result<Self, String> {
        Self::begun(Self::spawn(hosts, arguments))
    }

    fn begun(mut watcher: Self) -> Result<Self, String> {
        let mut text = String::new();
        watcher.stderr.read_line(&mut text).unwrap();
        if text.contains("until you press Ctrl-C") {
            Ok(watcher)
        } else {
            Err(text)
        }
    }

    /// Starts `watch` with these arguments.
    pub fn spawn(hosts: &Hosts, arguments: &[&str]) -> Self {
        Self::spawn_verb(hosts, &[&["watch", "eth0"], arguments].concat())
    }

    fn spawn_verb(hosts: &Hosts, arguments: &[&str]) -> Self {
        let spawned = hosts.server.namespace.run(|| {
            prepared(arguments)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
        });
        let mut child = spawned.unwrap().unwrap();
        Self {
            stdout: child.stdout.take().map(BufReader::new),
            stderr: BufReader::new(child.stderr.take().unwrap()),
            child,
        }
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next line.
    pub fn line(&mut self) -> String {
        self.line_if_any().expect("no line came")
    }

    /// The next line; none after a long silence.
    pub fn line_if_any(&mut self) -> Option<String> {
        let mut line = String::new();
        let stdout = self.stdout.as_mut().unwrap();
        if stdout.buffer().is_empty() {
            let mut polled = [PollFd::new(stdout.get_ref().as_fd(), PollFlags::POLLIN)];
            let ready = poll(&mut polled, PollTimeout::from(PATIENCE)).unwrap();
            if ready == 0 {
                return None;
            }
        }
        stdout.read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "the watcher has ended: {line}");
        Some(line)
    }

    /// The next line, parsed as JSON.
    pub fn event(&mut self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }

    /// True if the process has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Closes the reading end of the pipe.
    pub fn close(&mut self) {
        self.stdout = None;
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }

    /// Waits for its end. The process does not wait for a reader.
    pub fn wait(mut self) -> Ended {
        let since = Instant::now();
        while !self.has_ended() {
            let waited = since.elapsed();
            assert!(
                waited < Duration::from_millis(PATIENCE.into()),
                "the watcher has not ended"
            );
            thread::sleep(Duration::from_millis(5));
        }
        let (mut out, mut err) = (String::new(), String::new());
        if let Some(stdout) = &mut self.stdout {
            stdout.read_to_string(&mut out).unwrap();
        }
        self.stderr.read_to_string(&mut err).unwrap();
        Ended {
            status: self.child.wait().unwrap().code().unwrap_or(-1),
            stdout: out,
            stderr: err,
        }
    }

    /// Ends the process as Ctrl-C does. It must succeed.
    pub fn end(self) -> Ended {
        self.signal(Signal::SIGINT);
        let ended = self.wait();
        assert_eq!(ended.status, 0, "{ended:#?}");
        ended
    }
}

impl Ended {
    /// The numbers of events shown and lost, from its last message.
    pub fn sums(&self) -> (u64, u64) {
        let counts = self.stderr.lines().find_map(|line| {
            let (done, lost) = line.split_once(": eth0: ")?.1.split_once(", ")?;
            let (shown, _) = done.split_once(' ')?;
            Some((shown, lost.strip_suffix(" lost")?))
        });
        let (shown, lost) = counts.unwrap_or_else(|| panic!("no sums: {self:#?}"));
        let number = |text: &str| text.replace(',', "").parse().unwrap();
        (number(shown), number(lost))
    }
}

//! Runs a shell on a host in a terminal (tmux), and reads its screen.

use std::{
    fs,
    process::{Command, Output},
};

use crate::testbed::Host;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{command::binary, eventually, hosts::on};

/// The shell's prompt.
const PROMPT: &str = "ready>";

/// A terminal. The shell and its children end with it.
#[derive(Debug)]
pub struct Screen {
    folder: tempfile::TempDir,
}

impl Screen {
    /// Opens a terminal of this size on `host`.
    pub fn open(host: &Host, (columns, lines): (u16, u16)) -> Self {
        let screen = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let mut tmux = screen.tmux(&["-f", "/dev/null", "new-session", "-d"]);
        tmux.args(["-x", &columns.to_string(), "-y", &lines.to_string()]);
        tmux.args(["-e", &format!("PS1={PROMPT}"), "-e", "LC_ALL=C.UTF-8"]);
        // Line editing would change the terminal while the shell waits.
        tmux.args(["bash", "--norc", "--noprofile", "--noediting"]);
        // These variables of the test's own environment must not affect it.
        for name in ["TMUX", "SSH_CONNECTION"] {
            tmux.env_remove(name);
        }
        done(on(host, || tmux.output()).unwrap());
        screen.wait("a prompt", |screen| screen.last() == PROMPT);
        screen
    }

    fn tmux(&self, arguments: &[&str]) -> Command {
        let mut tmux = Command::new("tmux");
        tmux.arg("-u")
            .arg("-S")
            .arg(self.folder.path().join("socket"));
        tmux.args(arguments);
        tmux
    }

    fn ask(&self, arguments: &[&str]) -> String {
        done(self.tmux(arguments).output().unwrap())
    }

    /// The value of a tmux variable for the terminal.
    pub fn variable(&self, name: &str) -> String {
        let format = format!("#{{{name}}}");
        self.ask(&["display-message", "-p", &format])
            .trim_end()
            .to_owned()
    }

    /// The lines on the screen, without empty ends.
    pub fn lines(&self) -> Vec<String> {
        let text = self.ask(&["capture-pane", "-p"]);
        text.lines()
            .map(|line| line.trim_end().to_owned())
            .collect()
    }

    /// The screen as one text; wrapped lines are joined.
    pub fn text(&self) -> String {
        self.ask(&["capture-pane", "-p", "-J"])
    }

    /// The screen with its escape sequences for colours.
    pub fn coloured(&self) -> String {
        self.ask(&["capture-pane", "-p", "-e"])
    }

    /// The last line that is not empty.
    pub fn last(&self) -> String {
        let lines = self.lines();
        let last = lines.iter().rev().find(|line| !line.is_empty());
        last.cloned().unwrap_or_default()
    }

    /// Waits until `is_so` holds.
    pub fn wait(&self, state: &str, is_so: impl Fn(&Self) -> bool) {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            eventually(state, || is_so(self));
        }));
        assert!(result.is_ok(), "{state}: {:#?}", self.lines());
    }

    /// Waits until the screen contains `text`.
    pub fn wait_for(&self, text: &str) {
        self.wait(text, |screen| screen.text().contains(text));
    }

    /// Presses a key, by its name in tmux.
    pub fn press(&self, key: &str) {
        self.ask(&["send-keys", key]);
    }

    /// Types text.
    pub fn write(&self, text: &str) {
        self.ask(&["send-keys", "-l", text]);
    }

    /// Runs `limiter` in the shell, which prints its exit status at the end.
    pub fn limiter(&self, arguments: &str) {
        self.run(&format!("{} {arguments}", binary().display()));
    }

    /// Runs a command in the shell, which prints its exit status at the end.
    pub fn run(&self, line: &str) {
        // Removes the output of earlier commands from the screen.
        self.write("clear");
        self.press("Enter");
        self.wait("nothing but a prompt", |screen| {
            screen.lines()[0] == PROMPT && screen.last() == PROMPT
        });
        self.write(&format!("{line}; echo \"status $?\""));
        self.press("Enter");
    }

    /// Resizes the terminal.
    pub fn resize(&self, (columns, lines): (u16, u16)) {
        let (columns, lines) = (columns.to_string(), lines.to_string());
        self.ask(&["resize-window", "-x", &columns, "-y", &lines]);
    }

    /// Process id of the shell's running command.
    pub fn process(&self) -> Pid {
        let shell = self.variable("pane_pid");
        let children = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
        Pid::from_raw(children.split_whitespace().next().unwrap().parse().unwrap())
    }

    /// Sends a signal to the shell's running command.
    pub fn signal(&self, signal: Signal) {
        kill(self.process(), signal).unwrap();
    }

    /// The terminal's state, from `stty`.
    pub fn state(&self) -> String {
        let file = self.folder.path().join("state");
        let _ = fs::remove_file(&file);
        self.write(&format!(
            "stty -g > {0}.new; mv {0}.new {0}",
            file.display()
        ));
        self.press("Enter");
        eventually("stty has printed the state", || file.exists());
        self.wait("a prompt", |screen| screen.last() == PROMPT);
        fs::read_to_string(file).unwrap()
    }

    /// Panics unless the shell has the terminal in the state `state`.
    pub fn expect_given_back(&self, state: &str) {
        self.wait("the usual screen", |screen| {
            screen.variable("alternate_on") == "0"
        });
        self.wait("the cursor", |screen| screen.variable("cursor_flag") == "1");
        self.wait("a prompt", |screen| screen.last() == PROMPT);
        assert_eq!(self.state(), state, "{:#?}", self.lines());
        self.write("echo it is $((6 * 7))");
        self.wait("the typed text", |screen| {
            screen.last().ends_with("echo it is $((6 * 7))")
        });
        self.press("Enter");
        self.wait_for("it is 42");
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The thread may be panicking already.
        let _ = self.tmux(&["kill-server"]).output();
    }
}

fn done(output: Output) -> String {
    assert!(output.status.success(), "tmux: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

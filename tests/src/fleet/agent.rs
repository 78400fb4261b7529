//! Runs `limiter agent` on a host.

use std::{
    io::Read,
    process::{Child, ChildStderr, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
};

use crate::testbed::Host;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{command::prepared, eventually, hosts::on};

/// An agent that runs on a host until it is dropped, which kills it.
#[derive(Debug)]
pub struct Agent {
    process: Child,
    printed: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Agent {
    /// Starts `limiter agent --store STORE` with more arguments.
    pub fn start(host: &Host, store: &str, more: &[&str]) -> Self {
        let mut command = prepared(&["agent", "--store", store]);
        command.args(more);
        on(host, || Self::run(command))
    }

    /// Runs a command that is an agent.
    pub fn run(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let printed = Arc::default();
        let reader = read(process.stderr.take().unwrap(), Arc::clone(&printed));
        Self {
            process,
            printed,
            reader: Some(reader),
        }
    }

    /// The agent's process.
    pub fn process(&self) -> Pid {
        Pid::from_raw(self.process.id().try_into().unwrap())
    }

    /// Its standard error until now.
    pub fn printed(&self) -> String {
        String::from_utf8_lossy(&self.printed.lock().unwrap()).into_owned()
    }

    /// Waits until standard error contains `words`.
    pub fn wait_until_it_says(&self, words: &str) {
        let condition = format!("the agent says '{words}'");
        eventually(&condition, || self.printed().contains(words));
    }

    /// Sends the agent a signal, such as SIGSTOP or SIGCONT.
    pub fn signal(&self, signal: Signal) {
        kill(self.process(), signal).unwrap();
    }

    /// Waits for its end. Returns the exit status and the whole standard error.
    pub fn wait(mut self) -> (ExitStatus, String) {
        let status = self.process.wait().unwrap();
        self.reader.take().unwrap().join().unwrap();
        (status, self.printed())
    }

    /// Sends the agent a signal, and waits for its end.
    pub fn end(self, signal: Signal) -> (ExitStatus, String) {
        self.signal(signal);
        self.wait()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Reads in a thread, so that the agent never waits for a reader.
fn read(mut stderr: ChildStderr, printed: Arc<Mutex<Vec<u8>>>) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut part = [0; 4_096];
        while let Ok(length @ 1..) = stderr.read(&mut part) {
            printed.lock().unwrap().extend(&part[..length]);
        }
    })
}

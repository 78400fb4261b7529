//! `limiter export` on a host, and whoever asks it.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use limiter_user::testbed::Host;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{
    command::prepared,
    hosts::on,
    processes::{helper_of, status_of},
};

/// Longer than any answer takes, on a machine that may be busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// An exporter that runs on a host until this is dropped, at a port that the kernel chose.
#[derive(Debug)]
pub struct Exporter<'h> {
    host: &'h Host,
    process: Child,
    /// Where it listens.
    pub address: SocketAddr,
}

/// What it answered.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Headers, their names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The rest.
    pub body: String,
}

impl<'h> Exporter<'h> {
    /// Starts one on the host's loopback.
    #[must_use]
    pub fn start(host: &'h Host) -> Self {
        Self::start_at(host, "127.0.0.1:0")
    }

    /// The same at this address.
    #[must_use]
    pub fn start_at(host: &'h Host, address: &str) -> Self {
        loopback_up(host);
        let mut command = prepared(&["export", "--listen", address]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = on(host, || command.spawn()).unwrap();
        let mut line = String::new();
        let out = process.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        let address = line.split('/').nth(2);
        let address = address.unwrap_or_else(|| panic!("it does not say where: {line:?}"));
        Self {
            host,
            process,
            address: address.parse().unwrap(),
        }
    }

    /// Its process.
    #[must_use]
    pub fn process(&self) -> Pid {
        Pid::from_raw(self.process.id().try_into().unwrap())
    }

    /// A connection to it.
    #[must_use]
    pub fn connect(&self) -> TcpStream {
        let stream = on(self.host, || TcpStream::connect(self.address)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends a request with these lines of headers beside the usual ones, and reads the answer to its end.
    #[must_use]
    pub fn ask(&self, method: &str, path: &str, headers: &str) -> Answer {
        self.ask_as("127.0.0.1", method, path, headers)
    }

    /// The same, by the name `host`.
    #[must_use]
    pub fn ask_as(&self, host: &str, method: &str, path: &str, headers: &str) -> Answer {
        let mut stream = self.connect();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        Answer::read(&mut stream)
    }

    /// What is at `path`, which must be there.
    #[must_use]
    pub fn get(&self, path: &str) -> String {
        let answer = self.ask("GET", path, "");
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.body
    }

    /// The same as JSON.
    #[must_use]
    pub fn json(&self, path: &str) -> serde_json::Value {
        serde_json::from_str(&self.get(path)).unwrap()
    }

    /// All samples, by what stands before the value.
    #[must_use]
    pub fn samples(&self) -> BTreeMap<String, f64> {
        let text = self.get("/metrics");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines
            .map(|line| {
                let (name, value) = line.rsplit_once(' ').unwrap();
                (name.to_owned(), value.parse().unwrap())
            })
            .collect()
    }

    /// Bytes of its memory, and of its helper's.
    #[must_use]
    pub fn memory(&self) -> u64 {
        let processes = [self.process(), helper_of(self.process())];
        let kilobytes = processes.map(|process| {
            let said = status_of(process, "VmRSS");
            said.trim_end_matches(" kB").parse::<u64>().unwrap()
        });
        1024 * kilobytes.iter().sum::<u64>()
    }

    /// How many descriptors it has.
    #[must_use]
    pub fn descriptors(&self) -> usize {
        let path = format!("/proc/{}/fd", self.process());
        std::fs::read_dir(path).unwrap().count()
    }

    /// A connection, where it is still there.
    #[must_use]
    pub fn connect_if_it_listens(&self) -> Option<TcpStream> {
        let stream = on(self.host, || TcpStream::connect(self.address)).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Some(stream)
    }

    /// Waits for its end, and what it has said on standard error.
    #[must_use]
    pub fn wait(mut self) -> (ExitStatus, String) {
        let mut said = String::new();
        let stderr = self.process.stderr.take();
        stderr.unwrap().read_to_string(&mut said).unwrap();
        (self.process.wait().unwrap(), said)
    }

    /// Sends it a signal, and waits for its end.
    #[must_use]
    pub fn end(mut self, signal: Signal) -> ExitStatus {
        kill(self.process(), signal).unwrap();
        self.process.wait().unwrap()
    }
}

impl Drop for Exporter<'_> {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Answer {
    /// Reads one to the end of the connection.
    #[must_use]
    pub fn read(stream: &mut TcpStream) -> Self {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let mut lines = head.lines();
        let first = lines.next().unwrap_or_default();
        let status = first.split(' ').nth(1).unwrap_or_default().parse();
        let headers = lines.filter_map(|line| line.split_once(": "));
        Self {
            status: status.unwrap_or_else(|_| panic!("no answer: {text:?}")),
            headers: headers
                .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
                .collect(),
            body: body.to_owned(),
        }
    }
}

/// Hosts have none that works unless it is asked for.
pub fn loopback_up(host: &Host) {
    let mut command = Command::new("ip");
    command.args(["link", "set", "lo", "up"]);
    assert!(on(host, || command.status()).unwrap().success());
}

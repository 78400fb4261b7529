//! Runs `limiter export` on a host, and sends requests to it.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use crate::testbed::Host;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{
    command::prepared,
    hosts::on,
    processes::{helper_of, status_of},
};

/// Maximum time of an answer, even on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// An exporter that runs on a host until it is dropped, at a port that the kernel chose.
#[derive(Debug)]
#[must_use]
pub struct Exporter<'h> {
    host: &'h Host,
    process: Child,
    /// Address that it listens on.
    pub address: SocketAddr,
}

/// An answer to a request.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Headers, with names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: String,
}

impl<'h> Exporter<'h> {
    /// Starts an exporter on the host's loopback.
    pub fn start(host: &'h Host) -> Self {
        Self::start_at(host, "127.0.0.1:0")
    }

    /// Starts an exporter at this address.
    pub fn start_at(host: &'h Host, address: &str) -> Self {
        loopback_up(host);
        let mut command = prepared(&["export", "--listen", address]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = on(host, || command.spawn()).unwrap();
        let mut line = String::new();
        let out = process.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        let address = line.split('/').nth(2);
        let address = address.unwrap_or_else(|| panic!("no address in: {line:?}"));
        Self {
            host,
            process,
            address: address.parse().unwrap(),
        }
    }

    /// The exporter's process.
    pub fn process(&self) -> Pid {
        Pid::from_raw(self.process.id().try_into().unwrap())
    }

    /// Connects to the exporter.
    pub fn connect(&self) -> TcpStream {
        let stream = on(self.host, || TcpStream::connect(self.address)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends a request with these header lines besides the usual ones, and reads the whole answer.
    pub fn ask(&self, method: &str, path: &str, headers: &str) -> Answer {
        let mut stream = self.connect();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n{headers}\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        Answer::read(&mut stream)
    }

    /// The body at `path`, which must exist.
    pub fn get(&self, path: &str) -> String {
        let answer = self.ask("GET", path, "");
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.body
    }

    /// The body at `path` as JSON.
    pub fn json(&self, path: &str) -> serde_json::Value {
        serde_json::from_str(&self.get(path)).unwrap()
    }

    /// All samples, by the text before the value.
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

    /// Bytes of memory of the exporter and its helper process.
    pub fn memory(&self) -> u64 {
        let processes = [self.process(), helper_of(self.process())];
        let kilobytes = processes.map(|process| {
            let text = status_of(process, "VmRSS");
            text.trim_end_matches(" kB").parse::<u64>().unwrap()
        });
        1024 * kilobytes.iter().sum::<u64>()
    }

    /// Number of open descriptors.
    pub fn descriptors(&self) -> usize {
        let path = format!("/proc/{}/fd", self.process());
        std::fs::read_dir(path).unwrap().count()
    }

    /// Waits for its end. Returns the exit status and the standard error.
    pub fn wait(mut self) -> (ExitStatus, String) {
        let mut text = String::new();
        let stderr = self.process.stderr.take();
        stderr.unwrap().read_to_string(&mut text).unwrap();
        (self.process.wait().unwrap(), text)
    }

    /// Sends the exporter a signal, and waits for its end.
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
    /// Reads an answer until the connection ends.
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

/// Sets loopback up, which is down by default.
pub fn loopback_up(host: &Host) {
    let mut command = Command::new("ip");
    command.args(["link", "set", "lo", "up"]);
    assert!(on(host, || command.status()).unwrap().success());
}

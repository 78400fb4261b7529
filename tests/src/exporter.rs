//! Runs `limiter export` on a host, and sends requests to it.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Child, ExitStatus, Stdio},
    time::Duration,
};

use crate::testbed::Host;
use nix::unistd::Pid;

use crate::{
    command::{ip, prepared},
    hosts::on,
    processes::{descriptors_of, helper_of, status_of},
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
        Self::run(host, &["export", "--listen", address])
    }

    /// Starts an exporter on the host's loopback with these options.
    pub fn start_with(host: &'h Host, options: &[&str]) -> Self {
        Self::run(
            host,
            &[&["export", "--listen", "127.0.0.1:0"], options].concat(),
        )
    }

    fn run(host: &'h Host, line: &[&str]) -> Self {
        loopback_up(host);
        let mut command = prepared(line);
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

    /// Sends a request, and reads the whole answer.
    pub fn ask(&self, method: &str, path: &str) -> Answer {
        let request = format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        let answer = self.send(request.as_bytes());
        answer.unwrap_or_else(|| panic!("no answer: {method} {path}"))
    }

    /// Sends bytes, and reads the whole answer, if there is one.
    pub fn send(&self, request: &[u8]) -> Option<Answer> {
        let mut stream = self.connect();
        // The exporter may close the connection before it has read everything.
        let _ = stream.write_all(request);
        Answer::read(&mut stream)
    }

    /// The body at `path`, which must exist.
    pub fn get(&self, path: &str) -> String {
        let answer = self.ask("GET", path);
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
        descriptors_of(self.process())
    }

    /// Waits for its end. Returns the exit status and the standard error.
    pub fn wait(mut self) -> (ExitStatus, String) {
        let mut text = String::new();
        let stderr = self.process.stderr.take();
        stderr.unwrap().read_to_string(&mut text).unwrap();
        (self.process.wait().unwrap(), text)
    }
}

impl Drop for Exporter<'_> {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Answer {
    /// Reads an answer until the connection ends; none if it ends without one.
    pub fn read(stream: &mut TcpStream) -> Option<Self> {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n")?;
        let headers = head.lines().filter_map(|line| line.split_once(": "));
        Some(Self {
            status: head.split(' ').nth(1)?.parse().ok()?,
            headers: headers
                .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
                .collect(),
            body: body.to_owned(),
        })
    }
}

/// Sets loopback up, which is down by default.
pub fn loopback_up(host: &Host) {
    ip(&host.namespace, "link set lo up");
}

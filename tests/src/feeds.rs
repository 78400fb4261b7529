//! Feeds for tests: their files, and servers of lists.

use std::{
    fs::{self, File, Permissions},
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{
    command::{Outcome, binary},
    files::Folder,
    hosts::{Hosts, on},
    number,
    testbed::Host,
};

/// A feed with a folder that every user can read.
#[derive(Debug)]
pub struct Feed<'h> {
    hosts: &'h Hosts,
    folder: Folder,
    /// The name of the feed, which no other test uses.
    pub name: String,
}

impl<'h> Feed<'h> {
    /// A feed for the attachment of `hosts`. Its name begins with `name`.
    pub fn new(hosts: &'h Hosts, name: &str) -> Self {
        let folder = Folder::new();
        fs::set_permissions(folder.path("."), Permissions::from_mode(0o755)).unwrap();
        Self {
            hosts,
            folder,
            name: format!("{name}-{}", std::process::id()),
        }
    }

    /// Writes a file in the folder. Returns its path.
    pub fn write(&self, name: &str, text: &str) -> String {
        // At once, as other programs do.
        let path = self.folder.write("new", text);
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let destination = self.folder.path(name);
        fs::rename(path, &destination).unwrap();
        destination
    }

    /// Writes the configuration. Returns its path.
    pub fn configure(&self, text: &str) -> String {
        self.write(&format!("{}.toml", self.name), text)
    }

    /// The path of the configuration.
    pub fn file(&self) -> String {
        self.folder.path(&format!("{}.toml", self.name))
    }

    /// Runs `limiter feed` once, with options between spaces.
    pub fn once(&self, options: &str) -> Outcome {
        let file = self.file();
        let mut arguments = vec!["feed", &file];
        arguments.extend(options.split(' '));
        self.hosts.limiter(&arguments)
    }

    /// Starts the feed, which ends after this time at the latest.
    pub fn start(&self, longest: Duration) -> Child {
        let mut command = Command::new("timeout");
        let longest = longest.as_secs().to_string();
        command.args(["--foreground", &longest]).arg(binary());
        command.args(["feed", &self.file()]).stdin(Stdio::null());
        let said = File::create(self.folder.path("said")).unwrap();
        command.stdout(Stdio::null()).stderr(said);
        on(&self.hosts.server, || command.spawn()).unwrap()
    }

    /// Lines of the feed that was started last.
    pub fn said(&self) -> String {
        fs::read_to_string(self.folder.path("said")).unwrap()
    }

    /// The entries that are left out for a reason, from `status`.
    pub fn left_out(&self, reason: &str) -> u64 {
        let status = self.status();
        let mut all = status["left_out"].as_array().unwrap().iter();
        let found = all.find(|found| found["reason"] == reason);
        found.map_or(0, |found| number(&found["entries"]))
    }

    /// The prefixes that this feed bans, in order.
    pub fn bans(&self) -> Vec<String> {
        let shown = self.hosts.json("bans eth0 --json");
        let bans = shown["bans"].as_array().unwrap().iter();
        let own = bans.filter(|ban| ban["origin"] == *self.name);
        own.map(|ban| ban["prefix"].as_str().unwrap().to_owned())
            .collect()
    }

    /// The state of this feed, from `status`.
    pub fn status(&self) -> serde_json::Value {
        let status = self.hosts.json("status eth0 --json");
        let feeds = status["feeds"].as_array().unwrap();
        let own = feeds.iter().find(|feed| feed["name"] == *self.name);
        own.cloned().unwrap_or_default()
    }
}

/// Ends a feed by a signal, and waits for its end. SIGKILL ends its helper process too.
pub fn end(mut feed: Child, signal: Signal) {
    // The feed's parent is `timeout`.
    let own = children(feed.id());
    let helpers: Vec<_> = own.iter().flat_map(|process| children(*process)).collect();
    let helpers = helpers.iter().filter(|_| signal == Signal::SIGKILL);
    for process in helpers.chain(&own) {
        let _ = kill(Pid::from_raw(process.cast_signed()), signal);
    }
    feed.wait().unwrap();
}

/// The processes that a process has started.
pub fn children(parent: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    let text = text.unwrap_or_default();
    text.split_whitespace()
        .map(|id| id.parse().unwrap())
        .collect()
}

/// A web server on the server's loopback that answers each request as it is told.
#[derive(Debug)]
pub struct Server {
    /// Its port.
    pub port: u16,
    answer: Arc<Mutex<Vec<u8>>>,
    /// The requests.
    pub asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Starts the server.
    pub fn start(hosts: &Hosts) -> Self {
        Self::start_at(&hosts.server, "127.0.0.1:0")
    }

    /// Starts the server on a host, at an address with a port.
    pub fn start_at(host: &Host, address: &str) -> Self {
        let listener = on(host, || TcpListener::bind(address).unwrap());
        let server = Self {
            port: listener.local_addr().unwrap().port(),
            answer: Arc::default(),
            asked: Arc::default(),
        };
        let (answer, asked) = (Arc::clone(&server.answer), Arc::clone(&server.asked));
        thread::spawn(move || {
            for client in listener.incoming() {
                let _ = serve(&client.unwrap(), &answer, &asked);
            }
        });
        server
    }

    /// Sets the whole answer.
    pub fn answer(&self, answer: impl Into<Vec<u8>>) {
        *self.answer.lock().unwrap() = answer.into();
    }

    /// Sets an answer with status 200, headers and a body.
    pub fn body(&self, headers: &str, body: &str) {
        let length = body.len();
        self.answer(format!(
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
        ));
    }
}

fn serve(
    mut client: &TcpStream,
    answer: &Mutex<Vec<u8>>,
    asked: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let lines = BufReader::new(client).lines();
    let head = lines
        .map_while(Result::ok)
        .take_while(|line| !line.is_empty());
    let head: Vec<_> = head.collect();
    asked.lock().unwrap().push(head.join("\n"));
    client.write_all(&answer.lock().unwrap())
}

//! Runs real stores: Debian's Redis or Valkey, each in a folder that is removed with the test.

use std::{
    fs,
    net::TcpListener,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use crate::testbed::Namespace;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tempfile::TempDir;

use crate::{eventually, need};

/// Setup of a store.
#[derive(Clone, Debug, Default)]
pub struct Setup<'h> {
    /// The host that it runs on; by default, this one.
    pub host: Option<&'h Namespace>,
    /// The address that it listens on; by default, loopback.
    pub address: Option<String>,
    /// Its password.
    pub password: Option<String>,
    /// Its certificates: with them, it listens with TLS only.
    pub tls: Option<PathBuf>,
    /// True if it demands certificates of its clients.
    pub demands_certificates: bool,
    /// Initial text of its configuration file. The file also sets the address, and the store can rewrite it.
    pub file: Option<String>,
}

/// A running store.
#[derive(Debug)]
pub struct Redis<'h> {
    setup: Setup<'h>,
    folder: TempDir,
    process: Option<Child>,
    /// The port that it listens on.
    pub port: u16,
}

/// True if a store can be started.
pub fn is_there(test: &str) -> bool {
    let [server, twin] = names();
    need::program(test, "redis-cli") && (in_path(&server) || need::program(test, &twin))
}

/// Returns from a test that needs a store if there is none.
#[macro_export]
macro_rules! need_redis {
    () => {
        if !$crate::redis::is_there(concat!(module_path!(), ", line ", line!())) {
            return;
        }
    };
}

/// Environment variable with the name of the store, by default `redis`: `valkey`, `redict`. `cargo xtask test
/// fleet_valkey` and `cargo xtask stores` set it.
const STORE: &str = "LIMITER_REDIS";

/// Names of the server program: its own, and its name in a Debian package without a service. The name by which the
/// program is called selects its function: to serve, or to check a file.
fn names() -> [String; 2] {
    let store = std::env::var(STORE).unwrap_or_else(|_| "redis".to_owned());
    ["server", "check-rdb"].map(|program| format!("{store}-{program}"))
}

fn in_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

pub(crate) fn server() -> Command {
    let [server, twin] = names();
    if in_path(&server) {
        return Command::new(server);
    }
    let mut command = Command::new(twin);
    command.arg0(server);
    command
}

impl Redis<'static> {
    /// True if a store can be started.
    pub fn is_there(test: &str) -> bool {
        is_there(test)
    }

    /// Starts a store here, on loopback.
    pub fn start() -> Self {
        Self::start_as(Setup::default())
    }
}

impl<'h> Redis<'h> {
    /// Starts a store, and waits until it answers.
    pub fn start_as(setup: Setup<'h>) -> Self {
        let port = match setup.host {
            // The namespace has no other server.
            Some(_) => 6379,
            None => free_port(),
        };
        Self::at(port, setup)
    }

    /// Starts a store at a port, and waits until it answers.
    pub fn at(port: u16, setup: Setup<'h>) -> Self {
        let mut redis = Self {
            setup,
            folder: tempfile::tempdir().unwrap(),
            process: None,
            port,
        };
        redis.go_on();
        redis
    }

    /// The store's Unix socket, which all hosts of this machine can reach.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// The store's URL with the socket.
    pub fn socket_url(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// The store's URL with the port, without user and password.
    pub fn url(&self) -> String {
        let scheme = self.setup.tls.as_ref().map_or("redis", |_| "rediss");
        let address = self.setup.address.as_deref().unwrap_or("127.0.0.1");
        format!("{scheme}://{address}:{}", self.port)
    }

    /// The store's URL with user and password.
    pub fn url_as(&self, user: &str, password: &str) -> String {
        self.url()
            .replacen("://", &format!("://{user}:{password}@"), 1)
    }

    /// The answer of `redis-cli` to a command, which must not be an error.
    pub fn cli(&self, command: &[&str]) -> String {
        let text = self.try_cli(command);
        let codes = ["ERR ", "NOAUTH", "WRONG", "OOM", "NOPERM"];
        assert!(
            !codes.iter().any(|code| text.starts_with(code)),
            "{command:?}: {text}"
        );
        text
    }

    fn try_cli(&self, command: &[&str]) -> String {
        let mut cli = Command::new("redis-cli");
        cli.arg("-s").arg(self.socket()).args(command);
        if let Some(password) = &self.setup.password {
            cli.env("REDISCLI_AUTH", password);
        }
        let output = cli.output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn signal(&self, signal: Signal) {
        let process = self.process.as_ref().expect("the store does not run");
        kill(Pid::from_raw(process.id().try_into().unwrap()), signal).unwrap();
    }

    /// Bytes of memory that the data takes.
    pub fn size(&self) -> u64 {
        let memory = self.cli(&["INFO", "memory"]);
        let mut fields = memory.lines().filter_map(|line| line.split_once(':'));
        let field = fields.find(|(name, _)| *name == "used_memory");
        field.unwrap().1.trim().parse().unwrap()
    }

    /// The processes of the store.
    pub fn processes(&self) -> impl Iterator<Item = Pid> {
        let process = self.process.as_ref().expect("the store does not run");
        std::iter::once(Pid::from_raw(process.id().try_into().unwrap()))
    }

    /// Suspends the store. Connections stay, and get no answers.
    pub fn pause(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Resumes the store.
    pub fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// Kills the store.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Starts the store after [`Self::stop`], at the same port, with the data that it has saved (`SAVE`).
    pub fn go_on(&mut self) {
        let folder = self.folder.path();
        let address = self.setup.address.as_deref().unwrap_or("127.0.0.1");
        let port = self.port.to_string();
        let mut command = server();
        if let Some(text) = &self.setup.file {
            let file = folder.join("redis.conf");
            if !file.exists() {
                fs::write(&file, text).unwrap();
            }
            command.arg(file);
        } else {
            command.args(["--bind", address]);
        }
        command.args(["--save", "", "--daemonize", "no"]);
        command.arg("--dir").arg(folder);
        command.arg("--unixsocket").arg(self.socket());
        command.arg("--logfile").arg(folder.join("log"));
        match &self.setup.tls {
            Some(tls) => {
                command.args(["--port", "0", "--tls-port", &port]);
                let demands = if self.setup.demands_certificates {
                    "yes"
                } else {
                    "no"
                };
                command.args(["--tls-auth-clients", demands]);
                command.arg("--tls-ca-cert-file").arg(tls.join("ca.pem"));
                command.arg("--tls-cert-file").arg(tls.join("host.pem"));
                command.arg("--tls-key-file").arg(tls.join("host.key"));
            }
            None => {
                command.args(["--port", &port]);
            }
        }
        if let Some(password) = &self.setup.password {
            command.args(["--requirepass", password]);
        }
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let process = match self.setup.host {
            Some(host) => host.run(|| command.spawn()).unwrap(),
            None => command.spawn(),
        };
        self.process = Some(process.unwrap());
        eventually("the store answers", || {
            // An error that asks for a password is an answer too.
            let output = self.try_cli(&["PING"]);
            output.contains("PONG") || output.contains("NOAUTH")
        });
    }

    /// The store's time, in microseconds.
    pub fn micros(&self) -> u64 {
        let time = self.cli(&["TIME"]);
        let (seconds, micros) = time.split_once('\n').unwrap();
        1_000_000 * seconds.parse::<u64>().unwrap() + micros.parse::<u64>().unwrap()
    }

    /// The URL for agents, with the store's password.
    pub fn agent_url(&self) -> String {
        match &self.setup.password {
            Some(password) => self.url_as("", password),
            None => self.url(),
        }
    }

    /// Fills the store, or makes room in it again.
    pub fn fill(&self, is_full: bool) {
        let set = |name, value| self.cli(&["CONFIG", "SET", name, value]);
        set("maxmemory-policy", "noeviction");
        set("maxmemory", if is_full { "1" } else { "0" });
    }

    /// Adds `0.0.0.0/0` by `admin`, and garbage, to the list `deny`.
    pub fn garble_list(&self) {
        let value = r#"{"by":"admin","at":1,"until":null}"#;
        let entries = [
            "0.0.0.0/0",
            value,
            "203.0.113.10/33",
            value,
            "203.0.113.66",
            "garbage",
        ];
        self.cli(&[&["HSET", "limiter:{edge}:list:deny"], &entries[..]].concat());
        self.cli(&["HSET", "limiter:{edge}:lists", "revision", "5"]);
    }

    /// Makes the list `deny` no list. Returns words of the agents' message.
    pub fn spoil_list(&self) -> &'static str {
        const KEY: &str = "limiter:{edge}:list:deny";
        self.cli(&["DEL", KEY]);
        self.cli(&["SET", KEY, "x"]);
        self.cli(&["HSET", "limiter:{edge}:lists", "revision", "6"]);
        KEY
    }

    /// Puts a source of the limit `all` in a debt of 60 s, if the store has a record of it. Returns true if it has.
    pub fn owes_a_minute(&self, source: &str) -> bool {
        const DEEP: &str = "local t = redis.call('TIME') local now = t[1] * 1000000 + t[2] \
            return redis.call('SET', KEYS[1], struct.pack('<dddd', now, 1000, 60e9, now + 1e9), 'XX')";
        let key = format!("limiter:{{edge}}:s:all:{source}");
        self.cli(&["EVAL", DEEP, "1", &key]) == "OK"
    }

    /// Loses all data.
    pub fn forget(&self) {
        self.cli(&["FLUSHALL"]);
    }

    /// Forgets the scripts that connections have sent.
    pub fn forget_scripts(&self) {
        self.cli(&["SCRIPT", "FLUSH"]);
    }

    /// Saves all data.
    pub fn save(&self) {
        self.cli(&["SAVE"]);
    }

    /// Milliseconds until the record of a source of the limit `http` ends; none if there is none.
    pub fn record_left(&self, source: &str) -> Option<u64> {
        let name = format!("limiter:{{edge}}:s:http:{source}");
        self.cli(&["PTTL", &name]).parse().ok()
    }

    /// Lets the record of a source of the limit `http` end now.
    pub fn end_record(&self, source: &str) {
        let name = format!("limiter:{{edge}}:s:http:{source}");
        self.cli(&["PEXPIRE", &name, "1"]);
    }

    /// The members of the fleet `edge`, in the order of their heartbeats.
    pub fn members(&self) -> String {
        self.cli(&["ZRANGE", "limiter:{edge}:members", "0", "-1"])
    }

    /// Number of limits of the fleet `edge`.
    pub fn limits(&self) -> String {
        self.cli(&["ZCARD", "limiter:{edge}:limits"])
    }

    /// Number of stored entries of the list `deny`, expired ones among them.
    pub fn entries(&self) -> String {
        self.cli(&["HLEN", "limiter:{edge}:list:deny"])
    }

    /// Bytes that the store has sent in total.
    pub fn sent(&self) -> u64 {
        let stats = self.cli(&["INFO", "stats"]);
        let mut fields = stats.lines().filter_map(|line| line.split_once(':'));
        let field = fields.find(|(name, _)| *name == "total_net_output_bytes");
        field.unwrap().1.trim().parse().unwrap()
    }
}

impl Drop for Redis<'_> {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The answer of `redis-cli` to a command, from the server at a port.
pub(crate) fn try_cli(port: u16, command: &[&str]) -> String {
    let mut cli = Command::new("redis-cli");
    let output = cli.args(["-p", &port.to_string()]).args(command).output();
    String::from_utf8_lossy(&output.unwrap().stdout).into_owned()
}

/// A port that was free a moment ago. The kernel gives none of these to a connection of another test meanwhile
/// (`net.ipv4.ip_local_port_range`).
pub fn free_port() -> u16 {
    loop {
        let port = fastrand::u16(10_000..32_000);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Makes a certificate authority (`ca.pem`), certificate and key for `address` (`host.pem`, `host.key`), and an unknown
/// authority (`other.pem`), in a folder. And a certificate of X.509 version 1 for that key (`old.pem`).
pub fn certificates(address: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let openssl = |arguments: &str| {
        let mut command = Command::new("openssl");
        command.args(arguments.split(' ')).current_dir(&folder);
        let output = command.output().unwrap();
        assert!(output.status.success(), "openssl {arguments}: {output:?}");
    };
    let new = "req -x509 -nodes -days 2 -newkey ec -pkeyopt ec_paramgen_curve:P-256";
    for ca in ["ca", "other"] {
        openssl(&format!(
            "{new} -keyout {ca}.key -out {ca}.pem -subj /CN={ca}"
        ));
    }
    let extension = format!("subjectAltName=IP:{address}\nbasicConstraints=CA:FALSE\n");
    fs::write(folder.path().join("extension"), extension).unwrap();
    openssl(
        "req -nodes -newkey ec -pkeyopt ec_paramgen_curve:P-256 -keyout host.key -out host.csr -subj /CN=host",
    );
    openssl(
        "x509 -req -in host.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile extension -out host.pem",
    );
    openssl("x509 -req -in host.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -out old.pem");
    folder
}

/// Maximum time of a store's answer, even on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(20);

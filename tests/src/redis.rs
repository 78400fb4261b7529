//! Real stores: Debian's Redis or Valkey, each in a folder of its own, gone with the test.

use std::{
    fs,
    net::TcpListener,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use limiter_user::testbed::Namespace;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tempfile::TempDir;

use crate::{eventually, need};

/// How a store is to be.
#[derive(Clone, Debug, Default)]
pub struct Setup<'h> {
    /// The host that it runs on; without one, here.
    pub host: Option<&'h Namespace>,
    /// The address that it listens at; without one, loopback.
    pub address: Option<String>,
    /// Its password.
    pub password: Option<String>,
    /// Its certificates: then it listens with TLS alone.
    pub tls: Option<PathBuf>,
    /// What else is said to it, as on its command line: `--maxmemory`, `4mb`...
    pub more: Vec<String>,
    /// What its configuration file says at first, to which it can write what it is told later: also where it listens.
    pub file: Option<String>,
}

/// A store that runs.
#[derive(Debug)]
pub struct Redis<'h> {
    setup: Setup<'h>,
    folder: TempDir,
    process: Option<Child>,
    /// The port that it listens at.
    pub port: u16,
}

/// True where a store can be started.
#[must_use]
pub fn is_there(test: &str) -> bool {
    let [server, twin] = names();
    need::program(test, "redis-cli") && (in_path(server) || need::program(test, twin))
}

/// Leaves a test that needs a store where there is none.
#[macro_export]
macro_rules! need_redis {
    () => {
        if !$crate::redis::is_there(concat!(module_path!(), ", line ", line!())) {
            return;
        }
    };
}

/// What the server is called: as it is, and as Debian has it in a package without a service too. By that name it checks
/// a file; which one it is it takes from the name that it is called by.
fn names() -> [&'static str; 2] {
    if is_valkey() {
        ["valkey-server", "valkey-check-rdb"]
    } else {
        ["redis-server", "redis-check-rdb"]
    }
}

/// Whether these are the tests of `fleet_valkey.rs`.
fn is_valkey() -> bool {
    let program = std::env::current_exe().unwrap();
    let name = program.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with("fleet_valkey"))
}

fn in_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

fn server() -> Command {
    let [server, twin] = names();
    if in_path(server) {
        return Command::new(server);
    }
    let mut command = Command::new(twin);
    command.arg0(server);
    command
}

impl Redis<'static> {
    /// Starts one here, on loopback.
    #[must_use]
    pub fn start() -> Self {
        Self::start_as(Setup::default())
    }
}

impl<'h> Redis<'h> {
    /// Starts one, and waits until it answers.
    #[must_use]
    pub fn start_as(setup: Setup<'h>) -> Self {
        let port = match setup.host {
            // Nobody else is there.
            Some(_) => 6379,
            None => free_port(),
        };
        let mut redis = Self {
            setup,
            folder: tempfile::tempdir().unwrap(),
            process: None,
            port,
        };
        redis.run();
        redis
    }

    fn run(&mut self) {
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
        // A replica is given what there is at once, not after five seconds.
        command.args(["--repl-diskless-sync-delay", "0"]);
        command.arg("--dir").arg(folder);
        command.arg("--unixsocket").arg(self.socket());
        command.arg("--logfile").arg(folder.join("log"));
        match &self.setup.tls {
            Some(tls) => {
                command.args(["--port", "0", "--tls-port", &port, "--tls-cluster", "yes"]);
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
        command.args(&self.setup.more);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let process = match self.setup.host {
            Some(host) => host.run(|| command.spawn()).unwrap(),
            None => command.spawn(),
        };
        self.process = Some(process.unwrap());
        eventually("the store answers", || {
            // To somebody whom it does not know, too.
            let said = self.try_cli(&["PING"]);
            said.contains("PONG") || said.contains("NOAUTH")
        });
    }

    /// Where it is kept.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its socket in the file system, which is there for all hosts of this machine.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// The socket as an address of a store.
    #[must_use]
    pub fn socket_url(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// The port as an address of a store, without user and password.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = self.setup.tls.as_ref().map_or("redis", |_| "rediss");
        let address = self.setup.address.as_deref().unwrap_or("127.0.0.1");
        format!("{scheme}://{address}:{}", self.port)
    }

    /// The same with user and password.
    #[must_use]
    pub fn url_as(&self, user: &str, password: &str) -> String {
        self.url()
            .replacen("://", &format!("://{user}:{password}@"), 1)
    }

    /// What `redis-cli` says to a command, which must not be an error.
    pub fn cli(&self, command: &[&str]) -> String {
        let said = self.try_cli(command);
        let codes = [
            "ERR ",
            "NOAUTH",
            "WRONG",
            "OOM",
            "NOPERM",
            "CROSSSLOT",
            "MOVED",
        ];
        assert!(
            !codes.iter().any(|code| said.starts_with(code)),
            "{command:?}: {said}"
        );
        said
    }

    fn try_cli(&self, command: &[&str]) -> String {
        let mut cli = Command::new("redis-cli");
        cli.arg("-s").arg(self.socket()).args(command);
        if let Some(password) = &self.setup.password {
            cli.env("REDISCLI_AUTH", password);
        }
        let said = cli.output().unwrap();
        String::from_utf8_lossy(&said.stdout).trim().to_owned()
    }

    /// Its process.
    #[must_use]
    pub fn process(&self) -> Pid {
        let process = self.process.as_ref().expect("it does not run");
        Pid::from_raw(process.id().try_into().unwrap())
    }

    /// Stops it where it is: connections stay, and nothing is answered.
    pub fn pause(&self) {
        kill(self.process(), Signal::SIGSTOP).unwrap();
    }

    /// Lets it go on.
    pub fn resume(&self) {
        kill(self.process(), Signal::SIGCONT).unwrap();
    }

    /// Kills it.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Kills it, and starts it with nothing in it, at the same port.
    pub fn restart_empty(&mut self) {
        self.stop();
        let _ = fs::remove_file(self.folder.path().join("dump.rdb"));
        self.run();
    }

    /// Has it save what it has, kills it, and starts it with that, at the same port.
    pub fn restart(&mut self) {
        self.cli(&["SAVE"]);
        self.stop();
        self.run();
    }

    /// Starts it after [`Self::stop`].
    pub fn go_on(&mut self) {
        self.run();
    }

    /// Makes it a copy of another, and waits until it is one.
    pub fn replicate(&self, of: &Redis<'_>) {
        let address = of.setup.address.as_deref().unwrap_or("127.0.0.1");
        self.cli(&["REPLICAOF", address, &of.port.to_string()]);
        eventually("the replica has all", || {
            self.cli(&["INFO", "replication"])
                .contains("master_link_status:up")
        });
    }

    /// Makes it a store of its own again: after the one that it copied has failed.
    pub fn promote(&self) {
        self.cli(&["REPLICAOF", "NO", "ONE"]);
    }

    /// Bytes that it has sent to all.
    #[must_use]
    pub fn sent(&self) -> u64 {
        let stats = self.cli(&["INFO", "stats"]);
        let mut fields = stats.lines().filter_map(|line| line.split_once(':'));
        let field = fields.find(|(name, _)| *name == "total_net_output_bytes");
        field.unwrap().1.trim().parse().unwrap()
    }

    /// Microseconds that it has spent on scripts, and how many it has run.
    #[must_use]
    pub fn scripts(&self) -> (u64, u64) {
        let stats = self.cli(&["INFO", "commandstats"]);
        let line = stats
            .lines()
            .find(|line| line.starts_with("cmdstat_evalsha:"));
        let field = |name: &str| {
            let rest = line.and_then(|line| line.split(name).nth(1));
            rest.and_then(|rest| rest.split(',').next()?.parse().ok())
                .unwrap_or(0)
        };
        (field("usec="), field("calls="))
    }
}

impl Drop for Redis<'_> {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Three stores that are one.
#[derive(Debug)]
pub struct Cluster {
    /// Each of them.
    pub nodes: Vec<Redis<'static>>,
}

impl Cluster {
    /// Starts them, on loopback, and waits until they agree.
    #[must_use]
    pub fn start() -> Self {
        let nodes: Vec<_> = (0..3)
            .map(|_| {
                let bus = free_port().to_string();
                // As one runs it for a fleet: a node that is gone takes its own part along, and no other.
                let more = [
                    "--cluster-enabled",
                    "yes",
                    "--cluster-port",
                    &bus,
                    "--cluster-require-full-coverage",
                    "no",
                    "--cluster-node-timeout",
                    "1000",
                ];
                Redis::start_as(Setup {
                    more: more.map(str::to_owned).to_vec(),
                    ..Setup::default()
                })
            })
            .collect();
        let mut create = Command::new("redis-cli");
        create.args(["--cluster", "create"]);
        create.args(nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)));
        create.args(["--cluster-yes", "--cluster-replicas", "0"]);
        let said = create.output().unwrap();
        assert!(said.status.success(), "{said:?}");
        let cluster = Self { nodes };
        eventually("the cluster agrees", || {
            let is_ok =
                |node: &Redis<'_>| node.cli(&["CLUSTER", "INFO"]).contains("cluster_state:ok");
            cluster.nodes.iter().all(is_ok)
        });
        cluster
    }
}

/// A port that nobody listened at a moment ago.
#[must_use]
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Makes a certificate authority (`ca.pem`), a certificate and key for `address` and a client (`host.pem`, `host.key`),
/// and an authority that nobody knows (`other.pem`), in a folder.
#[must_use]
pub fn certificates(address: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let openssl = |arguments: &str| {
        let mut command = Command::new("openssl");
        command.args(arguments.split(' ')).current_dir(&folder);
        let said = command.output().unwrap();
        assert!(said.status.success(), "openssl {arguments}: {said:?}");
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
    folder
}

/// How long a test lets a store take: longer than it takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(20);

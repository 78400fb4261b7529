//! Runs real stores: Debian's PostgreSQL, each in a folder that is removed with the test.
//!
//! The server refuses root, so it runs as `nobody`. Its agents are members of the role of `limiter agent schema`.

use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::OnceLock,
};

use limiter_fleet::store::SCHEMA;

use nix::{
    sys::{
        signal::{Signal, kill},
        statvfs::statvfs,
    },
    unistd::{Gid, Pid, Uid, chown, geteuid},
};
use tempfile::TempDir;

use crate::{
    command::folder_of_tests,
    eventually, need,
    processes::{children_of, is_running},
    redis::{Setup, free_port},
};

/// User and group of the server.
const NOBODY: u32 = 65_534;
/// The database. The role of its agents has the same name.
pub const DATABASE: &str = "edge";
/// The password of the agents' role.
pub const PASSWORD: &str = "geheim";

/// A running server.
#[derive(Debug)]
pub struct Postgres<'h> {
    pub(crate) setup: Setup<'h>,
    folder: TempDir,
    process: Option<Child>,
    /// The port that it listens on.
    pub port: u16,
}

/// The folder of the programs: one of PATH, or the one of Debian's newest version.
fn programs() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let debian = versions.flatten().map(|version| version.path().join("bin"));
    let is_server = |folder: &PathBuf| folder.join("initdb").is_file();
    let mut folders: Vec<_> = debian.filter(is_server).collect();
    folders.sort();
    std::env::split_paths(&path)
        .find(is_server)
        .or_else(|| folders.pop())
}

/// A program of the server, run as the user of the server.
fn program(name: &str) -> Command {
    let own = programs().unwrap().join(name);
    // Debian has the client in a package of its own.
    let mut command = Command::new(if own.is_file() { own } else { name.into() });
    if geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY).current_dir("/");
    }
    command.env_remove("PGHOST").env_remove("PGUSER");
    command
}

fn succeeds(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A server's folder with the database, the schema and the agents' role, to copy. It is kept beside the build results:
/// making it takes ten times as long as copying it.
fn prepared_data() -> &'static Path {
    static KEPT: OnceLock<PathBuf> = OnceLock::new();
    KEPT.get_or_init(|| {
        let mut version = program("initdb");
        let version = succeeds(version.arg("--version"));
        let mut content = DefaultHasher::new();
        (version, SCHEMA, PASSWORD, geteuid().as_raw()).hash(&mut content);
        let kept = folder_of_tests().join(format!("postgres-{:x}", content.finish()));
        if !kept.exists() {
            let mut server = Postgres::prepare();
            server.shut_down();
            let new = kept.with_extension(std::process::id().to_string());
            succeeds(Command::new("cp").arg("-a").args([&server.data(), &new]));
            // Another test program may have been faster.
            if fs::rename(&new, &kept).is_err() {
                fs::remove_dir_all(&new).unwrap();
            }
        }
        kept
    })
}

impl Postgres<'static> {
    /// True if a server can be started.
    pub fn is_there(test: &str) -> bool {
        let runs = || program("initdb").arg("--version").output();
        let is_there = programs().is_some() && runs().is_ok_and(|output| output.status.success());
        is_there || need::missing(test, "no PostgreSQL that `nobody` may run")
    }

    /// Starts a store here, on loopback.
    pub fn start() -> Self {
        Self::start_as(Setup::default())
    }
}

impl<'h> Postgres<'h> {
    /// Starts a store, and waits until it answers.
    pub fn start_as(setup: Setup<'h>) -> Self {
        // The network of the tests' fleets.
        let hosts = ["127.0.0.1/32", "198.51.100.0/24"];
        let rules = hosts.map(|from| format!("host all all {from} scram-sha-256\n"));
        let mut postgres = Self::in_folder(setup);
        succeeds(
            Command::new("cp")
                .arg("-a")
                .args([prepared_data(), &postgres.data()]),
        );
        postgres.begin(&rules.concat());
        postgres
    }

    /// Starts a server with the database, the schema and the agents' role.
    fn prepare() -> Self {
        let postgres = Self::start_with(Setup::default(), "");
        let schema = postgres.folder.path().join("schema.sql");
        fs::write(&schema, SCHEMA).unwrap();
        postgres.sql_in("postgres", &format!("CREATE DATABASE {DATABASE}"));
        succeeds(postgres.psql(DATABASE).arg("-1f").arg(schema));
        postgres.sql(&format!(
            "CREATE ROLE {DATABASE} LOGIN PASSWORD '{PASSWORD}' IN ROLE limiter_agent_{DATABASE}"
        ));
        postgres
    }

    /// Starts a server without the database. `rules`: who may connect, besides the owner of its folder.
    pub fn start_with(setup: Setup<'h>, rules: &str) -> Self {
        let mut postgres = Self::in_folder(setup);
        let mut initdb = program("initdb");
        initdb.args(["--no-sync", "--username=postgres", "--auth=trust", "-D"]);
        succeeds(initdb.arg(postgres.data()));
        postgres.begin(rules);
        postgres
    }

    fn begin(&mut self, rules: &str) {
        let own = "local all all trust\nlocal replication all trust\n";
        fs::write(self.data().join("pg_hba.conf"), format!("{own}{rules}")).unwrap();
        self.go_on();
    }

    /// Starts a replica of this server, beside it.
    pub fn replica(&self) -> Self {
        let mut replica = Self::in_folder(self.setup.clone());
        if self.setup.host.is_some() {
            replica.port = self.port + 1;
        }
        let mut copy = program("pg_basebackup");
        copy.args(["--write-recovery-conf", "--checkpoint=fast", "--no-sync"]);
        copy.args(["-U", "postgres", "-p", &self.port.to_string(), "-h"]);
        succeeds(copy.arg(self.folder.path()).arg("-D").arg(replica.data()));
        replica.go_on();
        replica
    }

    /// Makes a replica a primary.
    pub fn promote(&self) {
        self.sql("SELECT pg_promote()");
    }

    fn in_folder(setup: Setup<'h>) -> Self {
        // On a disk, the server's thousand files take most of a test's time.
        let free = statvfs("/dev/shm").map_or(0, |fs| fs.blocks_available() * fs.fragment_size());
        let folder = match free >> 30 {
            0 => tempfile::tempdir(),
            _ => tempfile::tempdir_in("/dev/shm"),
        }
        .unwrap();
        if geteuid().is_root() {
            own(folder.path());
        }
        // The namespace of a host has no other server.
        let port = setup.host.map_or_else(free_port, |_| 5_432);
        Self {
            setup,
            folder,
            process: None,
            port,
        }
    }

    /// The server's folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The URL of the database, without user and password.
    pub fn url(&self) -> String {
        let address = self.setup.address.as_deref().unwrap_or("127.0.0.1");
        let tls = self
            .setup
            .tls
            .as_ref()
            .map_or("", |_| "?sslmode=verify-full");
        format!("postgres://{address}:{}/{DATABASE}{tls}", self.port)
    }

    /// The URL of the database with user and password.
    pub fn url_as(&self, user: &str, password: &str) -> String {
        self.url()
            .replacen("://", &format!("://{user}:{password}@"), 1)
    }

    /// The URL of the database for agents.
    pub fn agent_url(&self) -> String {
        self.url_as(DATABASE, PASSWORD)
    }

    /// The URL of the database by the server's socket, for agents.
    pub fn socket_url(&self) -> String {
        let folder = self.folder.path().display().to_string().replace('/', "%2F");
        format!("postgres://{DATABASE}@{folder}:{}/{DATABASE}", self.port)
    }

    /// The command `psql` as the owner of a database.
    pub fn psql(&self, database: &str) -> Command {
        let mut psql = program("psql");
        psql.args(["-XqAt", "-v", "ON_ERROR_STOP=1", "-U", "postgres"]);
        psql.args(["-p", &self.port.to_string(), "-d", database, "-h"]);
        psql.arg(self.folder.path());
        psql
    }

    /// Lets a command's clients connect as the owner of the server.
    pub fn connects(&self, command: &mut Command) {
        command.env("PGHOST", self.folder.path());
        command.env("PGPORT", self.port.to_string());
        command.env("PGUSER", "postgres");
    }

    /// Runs a statement as the owner of the server.
    pub fn sql_in(&self, database: &str, statement: &str) -> String {
        succeeds(self.psql(database).args(["-c", statement]))
    }

    /// Runs a statement as the owner of the database.
    pub fn sql(&self, statement: &str) -> String {
        self.sql_in(DATABASE, statement)
    }

    /// Runs a statement as the owner of the database, which may fail.
    pub fn try_sql(&self, statement: &str) -> Output {
        self.psql(DATABASE)
            .args(["-c", statement])
            .output()
            .unwrap()
    }

    /// Bytes of disk that the records take.
    pub fn size(&self) -> u64 {
        let size = self.sql("SELECT pg_total_relation_size('limiter.records')");
        size.parse().unwrap()
    }

    /// The server, and its processes, one for each connection.
    pub fn processes(&self) -> impl Iterator<Item = Pid> {
        let server = self.process.as_ref().expect("the server does not run").id();
        let server = Pid::from_raw(server.try_into().unwrap());
        [vec![server], children_of(server)].concat().into_iter()
    }

    fn signal(&self, signal: Signal) {
        for process in self.processes() {
            // A process may have ended.
            let _ = kill(process, signal);
        }
    }

    /// Suspends the server. Connections stay, and get no answers.
    pub fn pause(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Resumes the server.
    pub fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// Kills the server, and waits for the end of all its processes: the next server refuses the folder while one of them
    /// still holds its shared memory.
    pub fn stop(&mut self) {
        let Some(mut process) = self.process.take() else {
            return;
        };
        let server = Pid::from_raw(process.id().try_into().unwrap());
        // While it is stopped, it starts no other process.
        let _ = kill(server, Signal::SIGSTOP);
        let processes = [children_of(server), vec![server]].concat();
        for process in &processes {
            let _ = kill(*process, Signal::SIGKILL);
        }
        let _ = process.wait();
        eventually("the server's processes end", || {
            !processes.iter().any(|process| is_running(*process))
        });
    }

    /// Lets the server complete its files, and end.
    fn shut_down(&mut self) {
        let mut process = self.process.take().unwrap();
        let server = Pid::from_raw(process.id().try_into().unwrap());
        kill(server, Signal::SIGINT).unwrap();
        assert!(process.wait().unwrap().success());
    }

    /// Starts the server after [`Self::stop`], at the same port.
    pub fn go_on(&mut self) {
        let mut server = program("postgres");
        server.arg("-D").arg(self.data());
        server.arg("-k").arg(self.folder.path());
        server.args(["-p", &self.port.to_string()]);
        if let Some(address) = &self.setup.address {
            server.args(["-h", address]);
        }
        let mut log = fs::File::options();
        log.create(true).append(true);
        let log = log.open(self.folder.path().join("log")).unwrap();
        server.args(["-c", "shared_buffers=32MB", "-c", "fsync=off"]);
        // In its folder. A killed server would leave files in /dev/shm.
        server.args(["-c", "dynamic_shared_memory_type=mmap"]);
        server.args(["-c", "recovery_init_sync_method=syncfs"]);
        if let Some(tls) = &self.setup.tls {
            let folder = self.folder.path();
            for name in ["host.pem", "host.key"] {
                fs::copy(tls.join(name), folder.join(name)).unwrap();
                own(&folder.join(name));
            }
            server.args(["-c", "ssl=on"]);
            for (option, name) in [("cert", "host.pem"), ("key", "host.key")] {
                let file = folder.join(name).display().to_string();
                server.args(["-c", &format!("ssl_{option}_file={file}")]);
            }
        }
        server.stdout(Stdio::null()).stderr(log);
        let process = match self.setup.host {
            Some(host) => host.run(|| server.spawn()).unwrap(),
            None => server.spawn(),
        };
        self.process = Some(process.unwrap());
        eventually("the server answers", || {
            let process = self.process.as_mut().unwrap();
            if let Some(status) = process.try_wait().unwrap() {
                let log = fs::read_to_string(self.folder.path().join("log"));
                panic!("the server has ended: {status}, {log:?}");
            }
            let mut select = self.psql("postgres");
            let output = select.args(["-c", "SELECT 1"]).output().unwrap();
            output.status.success()
        });
    }

    /// The store's time, in microseconds.
    pub fn micros(&self) -> u64 {
        self.sql("SELECT limiter.micros()").parse().unwrap()
    }

    /// Loses all data.
    pub fn forget(&self) {
        self.sql(
            "TRUNCATE limiter.records, limiter.rounds, limiter.members, limiter.limits, limiter.entries, limiter.revisions",
        );
    }

    /// Forgets what connections have sent before: nothing here.
    pub fn forget_scripts(&self) {}

    /// Saves all data. Rounds wait for no disk otherwise.
    pub fn save(&self) {
        self.sql("CHECKPOINT");
    }

    /// Fills the store, or makes room in it again: all changes fail as if the disk were full.
    pub fn fill(&self, is_full: bool) {
        let full = "CREATE FUNCTION public.full_disk() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE 'could not extend file' USING ERRCODE = 'disk_full'; END $$";
        let trigger = |table| {
            format!(
                "CREATE TRIGGER full_disk BEFORE INSERT ON limiter.{table} EXECUTE FUNCTION public.full_disk()"
            )
        };
        let triggers = ["rounds", "members", "revisions"].map(trigger).join(";");
        if is_full {
            self.sql(&format!("{full};{triggers}"));
        } else {
            self.sql("DROP FUNCTION public.full_disk CASCADE");
        }
    }

    /// Adds `0.0.0.0/0` by `admin`, and garbage, to the list `deny`.
    pub fn garble_list(&self) {
        self.sql(
            "INSERT INTO limiter.entries VALUES ('edge', 'deny', '0.0.0.0/0', 'admin', 1),
                 ('edge', 'deny', '203.0.113.10/33', 'admin', 1), ('edge', 'deny', '203.0.113.66', chr(27), -1);
             UPDATE limiter.revisions SET revision = 5",
        );
    }

    /// Makes the list `deny` too long. Returns words of the agents' message.
    pub fn spoil_list(&self) -> &'static str {
        self.sql(
            "INSERT INTO limiter.entries SELECT 'edge', 'deny', i, 'x', 1, NULL FROM generate_series(1, 100001) i;
             UPDATE limiter.revisions SET revision = 6",
        );
        "'deny' would have more than 100000 prefixes"
    }

    /// Puts a source of the limit `all` in a debt of 60 s, if the store has a record of it. Returns true if it has.
    pub fn owes_a_minute(&self, source: &str) -> bool {
        let changed = self.sql(&format!(
            "UPDATE limiter.records SET total = 1000, born = limiter.micros(),
                 tat = limiter.micros() * 1000 + 60000000000, cap = 60000000000
             WHERE limit_name = 'all' AND source = '{source}' RETURNING 1"
        ));
        changed == "1"
    }

    /// Milliseconds until the record of a source of the limit `http` ends; none if there is none.
    pub fn record_left(&self, source: &str) -> Option<u64> {
        let left = self.sql(&format!(
            "SELECT (ends - limiter.micros()) / 1000 FROM limiter.records WHERE source = '{source}' AND limit_name = 'http' AND ends > limiter.micros()"
        ));
        left.parse().ok()
    }

    /// Lets the record of a source of the limit `http` end now.
    pub fn end_record(&self, source: &str) {
        self.sql(&format!(
            "UPDATE limiter.records SET ends = limiter.micros() WHERE source = '{source}'"
        ));
    }

    /// The members of the fleet `edge`, in the order of their heartbeats.
    pub fn members(&self) -> String {
        self.sql(
            "SELECT lpad(to_hex(member), 16, '0') || ' ' || label FROM limiter.members ORDER BY at",
        )
    }

    /// Number of limits of the fleet `edge`.
    pub fn limits(&self) -> String {
        self.sql("SELECT count(*) FROM limiter.limits")
    }

    /// Number of stored entries of the list `deny`, expired ones among them.
    pub fn entries(&self) -> String {
        self.sql("SELECT count(*) FROM limiter.entries WHERE list = 'deny'")
    }
}

impl Drop for Postgres<'_> {
    fn drop(&mut self) {
        self.stop();
    }
}

fn own(path: &Path) {
    chown(
        path,
        Some(Uid::from_raw(NOBODY)),
        Some(Gid::from_raw(NOBODY)),
    )
    .unwrap();
}

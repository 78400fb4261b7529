//! Runs real poolers in front of PostgreSQL, each in a folder that is removed with the test.

use std::{
    fs,
    net::TcpStream,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::{Gid, Pid, Uid, chown, geteuid},
};
use tempfile::TempDir;

use crate::{
    eventually,
    postgres::{DATABASE, PASSWORD, Postgres},
    redis::free_port,
};

/// User and group of the pooler, which refuses root.
const NOBODY: u32 = 65_534;

/// A kind of pooler.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// The name of its program.
    pub name: &'static str,
    /// Its configuration, the file `conf`, with the words FOLDER, ADDRESS, PORT and SERVER.
    settings: &'static str,
    /// Its arguments, with the word FOLDER.
    arguments: &'static [&'static str],
}

macro_rules! pgbouncer {
    ($mode:literal) => {
        Program {
            name: "pgbouncer",
            settings: concat!(
                "[databases]\n* = host=ADDRESS port=SERVER\n[pgbouncer]\nlisten_addr = ADDRESS\n",
                "listen_port = PORT\nunix_socket_dir =\nauth_type = plain\nauth_file = FOLDER/users\npool_mode = ",
                $mode,
                "\n"
            ),
            arguments: &["FOLDER/conf"],
        }
    };
}

/// PgBouncer, with a connection to the server for each session (its default), and for each transaction.
const PGBOUNCER: [Program; 2] = [pgbouncer!("session"), pgbouncer!("transaction")];

/// Pgpool-II, which keeps its server when the server does not answer.
const PGPOOL: Program = Program {
    name: "pgpool",
    settings: "backend_clustering_mode = 'raw'\nlisten_addresses = 'ADDRESS'\nport = PORT\n\
        pcp_listen_addresses = ''\nsocket_dir = 'FOLDER'\npcp_socket_dir = 'FOLDER'\nunix_socket_directories = 'FOLDER'\n\
        pid_file_name = 'FOLDER/pid'\nlogdir = 'FOLDER'\nnum_init_children = 4\nbackend_hostname0 = 'ADDRESS'\n\
        backend_port0 = SERVER\nbackend_flag0 = 'DISALLOW_TO_FAILOVER'\nallow_clear_text_frontend_auth = on\n",
    arguments: &["-n", "-f", "FOLDER/conf"],
};

/// Odyssey, with a connection to the server for each transaction.
const ODYSSEY: Program = Program {
    name: "odyssey",
    settings: "daemonize no\nlog_to_stdout yes\nlog_format \"%l %m\\n\"\nworkers 1\nunix_socket_dir \"FOLDER\"\n\
        unix_socket_mode \"0600\"\nlocks_dir \"FOLDER\"\nlisten {\n host \"ADDRESS\"\n port PORT\n}\n\
        storage \"server\" {\n type \"remote\"\n host \"ADDRESS\"\n port SERVER\n}\n\
        database \"edge\" {\n user \"edge\" {\n  authentication \"clear_text\"\n  password \"geheim\"\n\
         storage \"server\"\n  storage_user \"edge\"\n  storage_password \"geheim\"\n  pool \"transaction\"\n }\n}\n",
    arguments: &["FOLDER/conf"],
};

/// pgagroal, with the methods of the server to prove who a client is.
const PGAGROAL: Program = Program {
    name: "pgagroal",
    settings: "[pgagroal]\nhost = ADDRESS\nport = PORT\nlog_type = console\nmax_connections = 20\n\
        unix_socket_dir = FOLDER\nallow_unknown_users = true\n[primary]\nhost = ADDRESS\nport = SERVER\n",
    arguments: &["-c", "FOLDER/conf", "-a", "FOLDER/hba"],
};

/// Environment variable with the name of a pooler: it is tested instead of the default ones, and stands in front of the
/// servers of fleets. `cargo xtask stores` sets it.
const POOLER: &str = "LIMITER_POOLER";

/// The poolers to test: by default, PgBouncer and Pgpool-II.
pub fn programs() -> Vec<Program> {
    let mut all = [&PGBOUNCER[..], &[PGPOOL, ODYSSEY, PGAGROAL]].concat();
    match std::env::var(POOLER) {
        Ok(name) => all.retain(|program| program.name == name),
        Err(_) => all.truncate(3),
    }
    assert!(!all.is_empty(), "{POOLER} names no pooler");
    all
}

/// Starts the pooler that the environment names in front of a server; none if it names none.
pub fn in_front<'h>(server: &Postgres<'h>) -> Option<Pooler> {
    std::env::var_os(POOLER)?;
    Some(Pooler::start(programs().last()?, server))
}

/// A running pooler.
#[derive(Debug)]
pub struct Pooler {
    folder: TempDir,
    process: Child,
    port: u16,
}

impl Pooler {
    /// Starts a pooler for a server, and waits until it listens.
    pub fn start(program: &Program, server: &Postgres<'_>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let setup = &server.setup;
        let address = setup.address.as_deref().unwrap_or("127.0.0.1");
        let path = folder.path().display().to_string();
        let settings = program.settings.replace("FOLDER", &path);
        let settings = settings.replace("ADDRESS", address);
        let settings = settings.replace("PORT", &port.to_string());
        let settings = settings.replace("SERVER", &server.port.to_string());
        let users = format!("\"{DATABASE}\" \"{PASSWORD}\"\n");
        for (name, text) in [
            ("conf", &*settings),
            ("users", &users),
            ("hba", "host all all all all\n"),
        ] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let mut command = Command::new(program.name);
        if geteuid().is_root() {
            let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
            chown(folder.path(), Some(user), Some(group)).unwrap();
            command.uid(NOBODY).gid(NOBODY).current_dir("/");
        }
        let arguments = program.arguments.iter();
        command.args(arguments.map(|argument| argument.replace("FOLDER", &path)));
        let log = fs::File::create(folder.path().join("log")).unwrap();
        command.stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        // Its children end with it.
        command.process_group(0);
        let mut start = || command.spawn().unwrap();
        let process = match setup.host {
            Some(host) => host.run(start).unwrap(),
            None => start(),
        };
        let mut pooler = Self {
            folder,
            process,
            port,
        };
        eventually(&format!("{} listens", program.name), || {
            let listens = || TcpStream::connect((address, port)).is_ok();
            let ended = pooler.process.try_wait().unwrap();
            assert!(ended.is_none(), "{}: {}", program.name, pooler.log());
            match setup.host {
                Some(host) => host.run(listens).unwrap(),
                None => listens(),
            }
        });
        pooler
    }

    /// A URL of the server, by the pooler.
    pub fn url(&self, url: &str, port: u16) -> String {
        url.replace(&format!(":{port}"), &format!(":{}", self.port))
    }

    /// The log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let group = Pid::from_raw(-i32::try_from(self.process.id()).unwrap());
        let _ = kill(group, Signal::SIGKILL);
        let _ = self.process.wait();
    }
}

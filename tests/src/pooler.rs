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
    /// Its configuration, with the words FOLDER, PORT and SERVER.
    settings: &'static str,
    /// Its arguments before the configuration file.
    arguments: &'static [&'static str],
}

macro_rules! pgbouncer {
    ($mode:literal) => {
        Program {
            name: "pgbouncer",
            settings: concat!(
                "[databases]\n* = host=127.0.0.1 port=SERVER\n[pgbouncer]\nlisten_addr = 127.0.0.1\n",
                "listen_port = PORT\nunix_socket_dir =\nauth_type = plain\nauth_file = FOLDER/users\npool_mode = ",
                $mode,
                "\n"
            ),
            arguments: &[],
        }
    };
}

/// PgBouncer, with a connection to the server for each session (its default), and for each transaction.
pub const PGBOUNCER: [Program; 2] = [pgbouncer!("session"), pgbouncer!("transaction")];

/// Pgpool-II, which keeps its server when the server does not answer.
pub const PGPOOL: Program = Program {
    name: "pgpool",
    settings: "backend_clustering_mode = 'raw'\nlisten_addresses = '127.0.0.1'\nport = PORT\n\
        pcp_listen_addresses = ''\nsocket_dir = 'FOLDER'\npcp_socket_dir = 'FOLDER'\nunix_socket_directories = 'FOLDER'\n\
        pid_file_name = 'FOLDER/pid'\nlogdir = 'FOLDER'\nnum_init_children = 4\nbackend_hostname0 = '127.0.0.1'\n\
        backend_port0 = SERVER\nbackend_flag0 = 'DISALLOW_TO_FAILOVER'\nallow_clear_text_frontend_auth = on\n",
    arguments: &["-n", "-f"],
};

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
        let path = folder.path().display().to_string();
        let settings = program.settings.replace("FOLDER", &path);
        let settings = settings.replace("PORT", &port.to_string());
        let file = folder.path().join("conf");
        fs::write(&file, settings.replace("SERVER", &server.port.to_string())).unwrap();
        let users = format!("\"{DATABASE}\" \"{PASSWORD}\"\n");
        fs::write(folder.path().join("users"), users).unwrap();
        let mut command = Command::new(program.name);
        if geteuid().is_root() {
            let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
            chown(folder.path(), Some(user), Some(group)).unwrap();
            command.uid(NOBODY).gid(NOBODY).current_dir("/");
        }
        command.args(program.arguments).arg(&file);
        let log = fs::File::create(folder.path().join("log")).unwrap();
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        // Its children end with it.
        command.process_group(0);
        let pooler = Self {
            folder,
            process: command.spawn().unwrap(),
            port,
        };
        eventually(&format!("{} listens", program.name), || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
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

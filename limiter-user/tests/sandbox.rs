//! A process in the sandbox can do its work and nothing else.
//!
//! Each case is its own process, which enters the sandbox and tries something.
//!
//! `cargo test -p limiter-user --test sandbox`

#![allow(
    clippy::unwrap_used,
    reason = "a failed unwrap is a failed case, whose message the reader needs"
)]

use std::{
    env,
    fs::{self, File},
    io::{ErrorKind, Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket},
    os::unix::{net::UnixStream, process::ExitStatusExt},
    path::Path,
    process::{Command, ExitCode, exit},
    thread,
};

use aya::programs::loaded_programs;
use limiter_user::{kernel::sys::bpf, sandbox};
use nix::{
    errno::Errno,
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
    sys::{
        ptrace,
        signal::{Signal, kill},
    },
    unistd::{Pid, Uid, setuid},
};

/// The required end of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The case ends by itself: its own result is valid.
    Well,
    /// The filter kills the case.
    Killed,
}

/// A case that is tried: its name, its end, and its work, which is done before and after the sandbox is entered. Files
/// opened before are used after.
type Case = (&'static str, End, fn());

fn enter() {
    sandbox::enter().unwrap();
}

fn refused<T>(result: std::io::Result<T>) {
    let error = result.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
}

const CASES: &[Case] = &[
    ("open files can be used", End::Well, || {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut one, mut other) = UnixStream::pair().unwrap();
        enter();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(b"a").unwrap();
        one.write_all(b"b").unwrap();
        let mut byte = [0];
        server.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"a");
        other.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"b");
    }),
    ("threads and memory are available", End::Well, || {
        enter();
        let sum = thread::spawn(|| vec![1_u8; 64 << 20].iter().map(|n| u64::from(*n)).sum());
        let sum: u64 = sum.join().unwrap();
        assert_eq!(sum, 64 << 20);
    }),
    (
        "no file can be opened, created or listed",
        End::Well,
        || {
            enter();
            for path in [
                "/etc/shadow",
                "/etc/passwd",
                "/",
                "/proc/self/status",
                "/dev/null",
            ] {
                refused(File::open(path));
                refused(fs::metadata(path));
            }
            refused(File::create("/tmp/limiter-sandbox"));
            refused(fs::create_dir("/tmp/limiter-sandbox"));
            refused(fs::remove_file("/tmp/limiter-sandbox"));
        },
    ),
    ("no socket can be created", End::Well, || {
        enter();
        refused(TcpStream::connect((Ipv4Addr::LOCALHOST, 9)));
        refused(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
        refused(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)));
        refused(UnixStream::connect("/run/nothing"));
    }),
    ("root cannot be regained", End::Well, || {
        enter();
        assert_eq!(setuid(Uid::from_raw(0)), Err(Errno::EPERM));
    }),
    ("other processes get no signal", End::Well, || {
        let parent = nix::unistd::getppid();
        enter();
        assert_eq!(kill(parent, Signal::SIGTERM), Err(Errno::EPERM));
        assert_eq!(kill(Pid::from_raw(-1), Signal::SIGTERM), Err(Errno::EPERM));
    }),
    ("no child process can be created", End::Well, || {
        enter();
        refused(Command::new("/bin/true").status());
    }),
    ("execve", End::Killed, || {
        use std::os::unix::process::CommandExt;
        let mut program = Command::new("/bin/true");
        enter();
        let error = program.exec();
        panic!("{error}");
    }),
    ("opening a pin", End::Killed, || {
        enter();
        let opened = bpf::open_pin(Path::new("/sys/fs/bpf/nothing"));
        panic!("{opened:?}");
    }),
    ("listing loaded programs", End::Killed, || {
        enter();
        panic!("{}", loaded_programs().count());
    }),
    ("ptrace", End::Killed, || {
        enter();
        panic!("{:?}", ptrace::traceme());
    }),
    ("mount", End::Killed, || {
        enter();
        let none: Option<&str> = None;
        panic!(
            "{:?}",
            mount(Some("x"), "/", Some("tmpfs"), MsFlags::empty(), none)
        );
    }),
    ("namespaces", End::Killed, || {
        enter();
        panic!("{:?}", unshare(CloneFlags::CLONE_NEWUSER));
    }),
    ("a second thread prevents entry", End::Well, || {
        let (wait, go) = std::sync::mpsc::channel::<()>();
        let other = thread::spawn(move || go.recv());
        let error = sandbox::enter().unwrap_err().to_string();
        assert!(error.contains("2 threads"), "{error}");
        // No privilege was dropped yet.
        File::open("/etc/passwd").unwrap();
        drop(wait);
        let _ = other.join();
    }),
    (
        "a helper opens files and uses bpf, but starts no program",
        End::Killed,
        || {
            sandbox::confine().unwrap();
            File::open("/etc/passwd").unwrap();
            let missing = bpf::open_pin(Path::new("/nothing")).unwrap_err();
            assert_ne!(missing.raw_os_error(), Some(libc::ENOSYS));
            let _ = unshare(CloneFlags::CLONE_NEWNET);
            eprintln!("the case continues");
            exit(0);
        },
    ),
];

/// Environment variable that names the case of a process.
const CASE: &str = "LIMITER_SANDBOX_CASE";

fn main() -> ExitCode {
    if let Ok(name) = env::var(CASE) {
        let case = CASES.iter().find(|case| case.0 == name);
        (case.unwrap().2)();
        return ExitCode::SUCCESS;
    }
    let mut failed = 0;
    for (name, wanted, _) in CASES {
        let mut child = Command::new(env::current_exe().unwrap());
        let output = child.env(CASE, name).output().unwrap();
        let end = match (output.status.code(), output.status.signal()) {
            (Some(0), _) => Some(End::Well),
            (_, Some(libc::SIGSYS)) => Some(End::Killed),
            _ => None,
        };
        if end == Some(*wanted) {
            println!("case {name} ... ok");
            continue;
        }
        failed += 1;
        println!("case {name} ... FAILED\n    {}", output.status);
        println!("{}", String::from_utf8_lossy(&output.stderr));
    }
    println!("\n{} cases, {failed} failed", CASES.len());
    ExitCode::from(u8::from(failed != 0))
}

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

/// A case that is tried.
struct Case {
    name: &'static str,
    end: End,
    /// Runs before and after the sandbox is entered: files opened before are used after.
    work: fn(),
}

fn enter() {
    sandbox::enter().unwrap();
}

fn refused<T>(result: std::io::Result<T>) {
    let error = result.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
}

const CASES: &[Case] = &[
    Case {
        name: "open files can be used",
        end: End::Well,
        work: || {
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
        },
    },
    Case {
        name: "threads and memory are available",
        end: End::Well,
        work: || {
            enter();
            let sum = thread::spawn(|| vec![1_u8; 64 << 20].iter().map(|n| u64::from(*n)).sum());
            let sum: u64 = sum.join().unwrap();
            assert_eq!(sum, 64 << 20);
        },
    },
    Case {
        name: "no file can be opened, created or listed",
        end: End::Well,
        work: || {
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
    },
    Case {
        name: "no socket can be created",
        end: End::Well,
        work: || {
            enter();
            refused(TcpStream::connect((Ipv4Addr::LOCALHOST, 9)));
            refused(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
            refused(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)));
            refused(UnixStream::connect("/run/nothing"));
        },
    },
    Case {
        name: "root cannot be regained",
        end: End::Well,
        work: || {
            enter();
            assert_eq!(setuid(Uid::from_raw(0)), Err(Errno::EPERM));
        },
    },
    Case {
        name: "other processes get no signal",
        end: End::Well,
        work: || {
            let parent = nix::unistd::getppid();
            enter();
            assert_eq!(kill(parent, Signal::SIGTERM), Err(Errno::EPERM));
            assert_eq!(kill(Pid::from_raw(-1), Signal::SIGTERM), Err(Errno::EPERM));
        },
    },
    Case {
        name: "no child process can be created",
        end: End::Well,
        work: || {
            enter();
            refused(Command::new("/bin/true").status());
        },
    },
    Case {
        name: "execve",
        end: End::Killed,
        work: || {
            use std::os::unix::process::CommandExt;
            let mut program = Command::new("/bin/true");
            enter();
            let error = program.exec();
            panic!("{error}");
        },
    },
    Case {
        name: "opening a pin",
        end: End::Killed,
        work: || {
            enter();
            let opened = bpf::open_pin(Path::new("/sys/fs/bpf/nothing"));
            panic!("{opened:?}");
        },
    },
    Case {
        name: "listing loaded programs",
        end: End::Killed,
        work: || {
            enter();
            panic!("{}", loaded_programs().count());
        },
    },
    Case {
        name: "ptrace",
        end: End::Killed,
        work: || {
            enter();
            panic!("{:?}", ptrace::traceme());
        },
    },
    Case {
        name: "mount",
        end: End::Killed,
        work: || {
            enter();
            let none: Option<&str> = None;
            panic!(
                "{:?}",
                mount(Some("x"), "/", Some("tmpfs"), MsFlags::empty(), none)
            );
        },
    },
    Case {
        name: "namespaces",
        end: End::Killed,
        work: || {
            enter();
            panic!("{:?}", unshare(CloneFlags::CLONE_NEWUSER));
        },
    },
    Case {
        name: "a second thread prevents entry",
        end: End::Well,
        work: || {
            let (wait, go) = std::sync::mpsc::channel::<()>();
            let other = thread::spawn(move || go.recv());
            let error = sandbox::enter().unwrap_err().to_string();
            assert!(error.contains("2 threads"), "{error}");
            // No privilege was dropped yet.
            File::open("/etc/passwd").unwrap();
            drop(wait);
            let _ = other.join();
        },
    },
    Case {
        name: "a helper opens files and uses bpf, but starts no program",
        end: End::Killed,
        work: || {
            sandbox::confine().unwrap();
            File::open("/etc/passwd").unwrap();
            let missing = bpf::open_pin(Path::new("/nothing")).unwrap_err();
            assert_ne!(missing.raw_os_error(), Some(libc::ENOSYS));
            let _ = unshare(CloneFlags::CLONE_NEWNET);
            eprintln!("the case continues");
            exit(0);
        },
    },
];

/// Environment variable that names the case of a process.
const CASE: &str = "LIMITER_SANDBOX_CASE";

fn main() -> ExitCode {
    if let Ok(name) = env::var(CASE) {
        let case = CASES.iter().find(|case| case.name == name);
        (case.unwrap().work)();
        return ExitCode::SUCCESS;
    }
    let mut failed = 0;
    for case in CASES {
        let mut child = Command::new(env::current_exe().unwrap());
        let output = child.env(CASE, case.name).output().unwrap();
        let end = match (output.status.code(), output.status.signal()) {
            (Some(0), _) => Some(End::Well),
            (_, Some(libc::SIGSYS)) => Some(End::Killed),
            _ => None,
        };
        let well = end == Some(case.end);
        println!(
            "case {} ... {}",
            case.name,
            if well { "ok" } else { "FAILED" }
        );
        if !well {
            failed += 1;
            println!("    {}", output.status);
            println!("{}", String::from_utf8_lossy(&output.stderr));
        }
    }
    println!("\n{} cases, {failed} failed", CASES.len());
    ExitCode::from(u8::from(failed != 0))
}

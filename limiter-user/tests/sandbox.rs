//! A process in the sandbox can do its work and nothing else.
//!
//! One process with one thread enters the sandbox, and tries everything.
//!
//! `cargo test -p limiter-user --test sandbox`

#![allow(
    clippy::unwrap_used,
    reason = "a failed unwrap is a failed check, whose message the reader needs"
)]

use std::{
    fmt::Debug,
    fs::{self, File},
    io::{ErrorKind, Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket},
    os::unix::{net::UnixStream, process::CommandExt},
    path::Path,
    process::Command,
    sync::mpsc,
    thread,
};

use aya::programs::loaded_programs;
use limiter_kernel::sys::bpf;
use limiter_user::sandbox;
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
    sys::{
        ptrace,
        signal::{Signal, kill},
    },
    unistd::{Pid, Uid, getppid, setuid},
};

fn main() {
    second_thread_prevents_entry();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let sockets = UnixStream::pair().unwrap();
    let parent = getppid();
    sandbox::enter().unwrap();
    open_sockets_and_memory_can_be_used(&listener, client, sockets);
    files_and_sockets_are_refused();
    programs_and_other_processes_are_refused(parent);
    println!("all calls that a sandboxed process does not need are refused");
}

fn second_thread_prevents_entry() {
    let (wait, go) = mpsc::channel::<()>();
    let other = thread::spawn(move || go.recv());
    let error = sandbox::enter().unwrap_err().to_string();
    assert!(error.contains("2 threads"), "{error}");
    // No privilege was dropped yet.
    File::open("/etc/passwd").unwrap();
    drop(wait);
    let _ = other.join();
}

fn open_sockets_and_memory_can_be_used(
    listener: &TcpListener,
    mut client: TcpStream,
    (mut sender, mut receiver): (UnixStream, UnixStream),
) {
    let (mut server, _) = listener.accept().unwrap();
    client.write_all(b"a").unwrap();
    sender.write_all(b"b").unwrap();
    let mut byte = [0];
    server.read_exact(&mut byte).unwrap();
    assert_eq!(&byte, b"a");
    receiver.read_exact(&mut byte).unwrap();
    assert_eq!(&byte, b"b");
    assert!(vec![1_u8; 64 << 20].iter().all(|byte| *byte == 1));
}

#[track_caller]
fn refused<T: Debug>(result: Result<T, impl Into<std::io::Error>>) {
    let error = result.unwrap_err().into();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
}

fn files_and_sockets_are_refused() {
    for path in ["/etc/passwd", "/", "/proc/self/status", "/dev/null"] {
        refused(File::open(path));
        refused(fs::metadata(path));
    }
    refused(File::create("/tmp/limiter-sandbox"));
    refused(fs::create_dir("/tmp/limiter-sandbox"));
    refused(fs::remove_file("/tmp/limiter-sandbox"));
    refused(TcpStream::connect((Ipv4Addr::LOCALHOST, 9)));
    refused(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
    refused(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)));
    refused(UnixStream::connect("/run/nothing"));
}

fn programs_and_other_processes_are_refused(parent: Pid) {
    refused(setuid(Uid::from_raw(0)));
    refused(kill(parent, Signal::SIGTERM));
    refused(kill(Pid::from_raw(-1), Signal::SIGTERM));
    refused(Command::new("/bin/true").status());
    refused::<()>(Err(Command::new("/bin/true").exec()));
    refused(thread::Builder::new().spawn(|| ()));
    refused(bpf::open_pin(Path::new("/sys/fs/bpf/nothing")));
    assert!(loaded_programs().all(|program| program.is_err()));
    refused(ptrace::traceme());
    let none: Option<&str> = None;
    refused(mount(Some("x"), "/", Some("tmpfs"), MsFlags::empty(), none));
    refused(unshare(CloneFlags::CLONE_NEWUSER));
}

//! The first commands on a machine without bpffs mount one, and only one. A limiter whose pins another one hides is found.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader},
    os::fd::AsFd,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use limiter_tests::{
    command::{limiter, prepared},
    need, need_kernel,
    steps::{End, Fault, run_with},
};
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, setns, unshare},
};

/// A machine without bpffs: mounts, processes and network of its own, and two interfaces.
struct Machine {
    shell: Child,
    /// The first of its processes.
    init: String,
}

/// Its first process. It ends when its standard input is closed.
const INIT: &str = "while umount /sys/fs/bpf 2>/dev/null; do :; done
    mount -t tmpfs state /var/lib &&
    ip link add name lan type veth peer name wan && echo ready && read -r line";

impl Machine {
    fn new() -> Self {
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "--pid", "--net", "--fork", "--mount-proc"]);
        unshare.args(["--kill-child", "sh", "-c", INIT]);
        let shell = unshare.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(shell.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        let process = shell.id();
        let children = format!("/proc/{process}/task/{process}/children");
        let init = fs::read_to_string(children).unwrap().trim().to_owned();
        Self { shell, init }
    }

    /// Runs `work` in a thread whose children are processes of the machine.
    fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let kinds = [
            ("pid", CloneFlags::CLONE_NEWPID),
            ("net", CloneFlags::CLONE_NEWNET),
            ("mnt", CloneFlags::CLONE_NEWNS),
        ];
        let enter = || {
            // The files are opened first, because /proc is another one afterwards.
            let files = kinds.map(|(kind, flag)| {
                let file = File::open(format!("/proc/{}/ns/{kind}", self.init)).unwrap();
                (file, flag)
            });
            unshare(CloneFlags::CLONE_FS).unwrap();
            for (file, flag) in &files {
                setns(file.as_fd(), *flag).unwrap();
            }
            work()
        };
        thread::scope(|scope| scope.spawn(enter).join().unwrap())
    }

    fn bpffs(&self) -> usize {
        let mounts = fs::read_to_string(format!("/proc/{}/mounts", self.init)).unwrap();
        let of_bpf = mounts
            .lines()
            .filter(|line| line.contains(" /sys/fs/bpf bpf "));
        of_bpf.count()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        self.shell.wait().unwrap();
    }
}

const A: [&str; 4] = ["attach", "lan", "--rate", "5"];
const B: [&str; 4] = ["attach", "wan", "--rate", "5"];

/// The first command has found no bpffs, and the second one attaches before it mounts one.
#[test]
fn second_first_attach_does_not_hide_the_pins_of_another_one() {
    need_kernel!();
    // Before the first call of one of these kinds, and before the mount, with the other command waiting for it.
    for waits in [false, true] {
        let machine = Machine::new();
        assert_eq!(machine.bpffs(), 0);
        let mut other = None;
        let stopped = machine.run(|| {
            let is_at = |name: &str| name == "mount" || (name == "lock" && !waits);
            run_with(&mut prepared(&A), |call| {
                if is_at(&call.name) && other.is_none() {
                    let mut command = prepared(&B);
                    command.stdout(Stdio::null()).stderr(Stdio::null());
                    let mut child = command.spawn().unwrap();
                    if waits {
                        thread::sleep(Duration::from_millis(300));
                    } else {
                        assert!(child.wait().unwrap().success());
                    }
                    other = Some(child);
                }
                Fault::None
            })
            .unwrap()
        });
        assert_eq!(stopped.end, End::Done(0), "{stopped:?}");
        let ended = other.expect("the command mounts").wait().unwrap();
        assert!(ended.success());
        assert_eq!(machine.bpffs(), 1, "waits: {waits}");
        let status = machine.run(|| limiter("status --json"));
        status.expect(0);
        let json: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
        let names = json["interfaces"].as_array().unwrap().iter();
        let names: Vec<_> = names
            .map(|interface| interface["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["lan", "wan"], "waits: {waits}");
    }
}

/// Otherwise nothing shows why packets are dropped, and nothing detaches it.
#[test]
fn limiter_whose_pins_another_bpffs_hides_is_found() {
    need_kernel!();
    if !need::tcx() {
        return;
    }
    let machine = Machine::new();
    machine.run(|| {
        limiter("attach lan --rate 5 --mode tc").expect(0);
        let (hidden, other) = ("pinned in another bpffs", "another limiter (program ");
        let doctor = limiter("doctor lan");
        assert!(!doctor.stdout.contains(hidden), "{doctor:#?}");
        let flags = MsFlags::empty();
        mount(Some("bpf"), "/sys/fs/bpf", Some("bpf"), flags, None::<&str>).unwrap();
        for line in ["doctor lan", "status lan"] {
            let found = limiter(line);
            let text = found.stdout.clone() + &found.stderr;
            assert!(text.contains(hidden), "{found:#?}");
        }
        for line in [
            "attach wan --rate 5 --mode tc",
            "attach lan:out --rate 5 --mode tc",
        ] {
            let outcome = limiter(line);
            outcome.expect(0);
            assert!(!outcome.stderr.contains(other), "{outcome:#?}");
        }
        let second = limiter("attach lan --rate 5 --mode tc");
        second.expect(0);
        assert!(second.stderr.contains(other), "{second:#?}");
    });
}

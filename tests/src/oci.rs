//! Runs containers with `crun`, the program with which podman and cri-o start theirs.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use serde_json::json;
use tempfile::TempDir;

use crate::{command::Outcome, hosts::on, testbed::Host};

/// Starts a program in a mount namespace that has only the second version of control groups: crun refuses both at once.
const WRAPPER: &str = "mount -t cgroup2 cgroup2 /sys/fs/cgroup && exec \"$@\"";
/// Folders of libraries, which a binary that is not linked statically needs.
const LIBRARIES: [&str; 2] = ["/lib", "/lib64"];

/// The files of a container, and a bpffs. Removed when dropped.
#[derive(Debug)]
pub struct Bundle {
    folder: TempDir,
}

/// A process of a container, as manifests describe it.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// The arguments of `limiter`.
    pub arguments: Vec<String>,
    /// The capabilities, without `CAP_`.
    pub capabilities: Vec<String>,
    /// Folders of this machine, and their read-only places in the container.
    pub folders: Vec<(String, String)>,
    /// True if the process may change the bpffs.
    pub pins: bool,
}

impl Bundle {
    /// A bundle of an empty root folder.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bpffs = folder.path().join("bpffs");
        for part in ["rootfs", "bpffs"] {
            fs::create_dir(folder.path().join(part)).unwrap();
        }
        let mode = Some("mode=0700");
        mount(Some("bpf"), &bpffs, Some("bpf"), MsFlags::empty(), mode).unwrap();
        Self { folder }
    }

    /// The root folder.
    pub fn root(&self) -> std::path::PathBuf {
        self.folder.path().join("rootfs")
    }

    /// Runs a container called `name` in the network namespace of `host` until it ends.
    pub fn run(&self, host: &Host, name: &str, process: &Process) -> Outcome {
        let mut command = self.command(name, process);
        let output = on(host, || command.output()).unwrap();
        Outcome::of(process.arguments.join(" "), output)
    }

    /// Starts a container called `name` in the network namespace of `host`.
    pub fn start<'b>(&'b self, host: &Host, name: &'b str, process: &Process) -> Running<'b> {
        let mut command = self.command(name, process);
        let child = on(host, || command.stdout(Stdio::null()).spawn()).unwrap();
        Running {
            bundle: self,
            name,
            child,
        }
    }

    fn crun(&self) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", WRAPPER, "sh", "crun"]);
        command.args(["--cgroup-manager=disabled", "--root"]);
        command.arg(self.folder.path().join("state"));
        command
    }

    fn command(&self, name: &str, process: &Process) -> Command {
        let bind = |from: &Path, destination: &str, access: &str| json!({ "destination": destination, "source": from, "type": "bind", "options": ["rbind", access] });
        let access = if process.pins { "rw" } else { "ro" };
        let mut mounts = vec![
            json!({ "destination": "/proc", "source": "proc", "type": "proc" }),
            json!({ "destination": "/dev", "source": "tmpfs", "type": "tmpfs" }),
            json!({ "destination": "/sys", "source": "sysfs", "type": "sysfs", "options": ["ro"] }),
            bind(&self.folder.path().join("bpffs"), "/sys/fs/bpf", access),
        ];
        let libraries = LIBRARIES.map(|folder| (folder.to_owned(), folder.to_owned()));
        for (from, destination) in libraries.iter().chain(&process.folders) {
            mounts.push(bind(Path::new(from), destination, "ro"));
        }
        let capabilities: Vec<_> = process
            .capabilities
            .iter()
            .map(|name| format!("CAP_{name}"))
            .collect();
        let mut arguments = vec!["/usr/bin/limiter"];
        arguments.extend(process.arguments.iter().map(String::as_str));
        let config = json!({
            "ociVersion": "1.0.2",
            "process": {
                "user": { "uid": 0, "gid": 0 },
                "args": arguments,
                "cwd": "/",
                "capabilities": {
                    "bounding": capabilities, "effective": capabilities, "permitted": capabilities,
                },
                "noNewPrivileges": true,
            },
            "root": { "path": "rootfs", "readonly": true },
            "mounts": mounts,
            // No network namespace: the container is in that of the caller, as with hostNetwork.
            "linux": { "namespaces": [
                { "type": "pid" }, { "type": "mount" }, { "type": "ipc" }, { "type": "uts" },
            ] },
        });
        fs::write(self.folder.path().join("config.json"), config.to_string()).unwrap();
        let mut command = self.crun();
        command
            .args(["run", "--bundle"])
            .arg(self.folder.path())
            .arg(name);
        command
    }
}

impl Default for Bundle {
    fn default() -> Self {
        Self::new()
    }
}

/// A running container. Ends when dropped.
#[derive(Debug)]
pub struct Running<'b> {
    bundle: &'b Bundle,
    name: &'b str,
    child: Child,
}

impl Running<'_> {
    /// Asks process 1 of the container to end. Returns true if it then ends with success.
    pub fn ends(&mut self) -> bool {
        let mut kill = self.bundle.crun();
        assert!(
            kill.args(["kill", self.name, "TERM"])
                .status()
                .unwrap()
                .success()
        );
        self.child.wait().unwrap().success()
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut delete = self.bundle.crun();
        let _ = delete.args(["delete", "--force", self.name]).output();
        let _ = self.child.wait();
    }
}

impl Drop for Bundle {
    fn drop(&mut self) {
        let _ = umount2(&self.folder.path().join("bpffs"), MntFlags::MNT_DETACH);
    }
}

//! The container image: its parts are those that it names, and it runs with few capabilities.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, UdpSocket},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use limiter_tests::{
    eventually,
    exporter::loopback_up,
    hosts::{CLIENT, Hosts, SERVER, on},
    need, need_kernel, need_program,
    oci::{Bundle, Process},
    raw::Raw,
    testbed::Host,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{lines, package, packages};

/// An unpacked image.
pub struct Image {
    folder: TempDir,
    manifest: Value,
}

impl Image {
    pub fn unpack() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut extract = Command::new("tar");
        extract.arg("-xf").arg(package(packages(), "tar"));
        lines(extract.arg("--directory").arg(folder.path()));
        let mut image = Self {
            folder,
            manifest: Value::Null,
        };
        let index = image.json(Path::new("index.json"));
        assert_eq!(index["manifests"].as_array().unwrap().len(), 1, "{index}");
        image.manifest = image.json(&image.part(&index["manifests"][0]));
        image
    }

    fn json(&self, path: &Path) -> Value {
        serde_json::from_slice(&fs::read(self.folder.path().join(path)).unwrap()).unwrap()
    }

    /// The file of a part. Its size and digest must be those of its description.
    fn part(&self, description: &Value) -> PathBuf {
        let digest = description["digest"].as_str().unwrap();
        let path = self
            .folder
            .path()
            .join("blobs")
            .join(digest.replace(':', "/"));
        assert_eq!(description["size"], fs::metadata(&path).unwrap().len());
        assert_eq!(sha256(Command::new("cat").arg(&path)), digest);
        path
    }

    fn layer(&self) -> PathBuf {
        assert_eq!(self.manifest["layers"].as_array().unwrap().len(), 1);
        self.part(&self.manifest["layers"][0])
    }

    /// Unpacks the files of the container.
    pub fn extract(&self, root: &Path) {
        let mut extract = Command::new("tar");
        extract.arg("-xzf").arg(self.layer());
        lines(extract.arg("--directory").arg(root));
    }
}

/// The digest of a command's output, by another program than the one that made the image.
fn sha256(command: &mut Command) -> String {
    let mut sum = Command::new("sh");
    sum.args(["-c", "\"$@\" | sha256sum", "sh"]);
    sum.arg(command.get_program()).args(command.get_args());
    let line = lines(&mut sum).remove(0);
    format!("sha256:{}", line.split_once(' ').unwrap().0)
}

#[test]
fn image_has_the_binary_and_describes_itself() {
    if !need::packages("package") {
        return;
    }
    let image = Image::unpack();
    let version = image.json(Path::new("oci-layout"));
    assert_eq!(version, json!({ "imageLayoutVersion": "1.0.0" }));
    let config = image.json(&image.part(&image.manifest["config"]));
    assert_eq!(config["config"]["Entrypoint"], json!(["/usr/bin/limiter"]));
    let content = sha256(Command::new("zcat").arg(image.layer()));
    assert_eq!(config["rootfs"]["diff_ids"], json!([content]));
    let debian = lines(
        Command::new("dpkg-deb")
            .args(["--field"])
            .arg(package(packages(), "deb"))
            .arg("Architecture"),
    );
    assert_eq!(config["architecture"], *debian[0]);

    let listed = lines(Command::new("tar").arg("-tzf").arg(image.layer()));
    let files: Vec<_> = listed.iter().filter(|name| !name.ends_with('/')).collect();
    assert_eq!(
        files,
        [
            "usr/bin/limiter",
            "usr/share/doc/limiter/LICENSE-APACHE",
            "usr/share/doc/limiter/LICENSE-MIT",
        ]
    );
    // Nothing of the machine that packed it: all files belong to root, and have the time of the commit.
    let long = lines(
        Command::new("tar")
            .arg("--full-time")
            .args(["--numeric-owner", "-tvzf"])
            .arg(image.layer()),
    );
    let times: Vec<_> = long
        .iter()
        .map(|line| line.split_whitespace().nth(4).unwrap())
        .collect();
    assert!(long.iter().all(|line| line.contains(" 0/0 ")), "{long:?}");
    assert!(times.iter().all(|time| *time == times[0]), "{long:?}");
}

fn process(arguments: &str, capabilities: &str) -> Process {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
    Process {
        arguments: words(arguments),
        capabilities: words(capabilities),
        ..Process::default()
    }
}

/// Sends ten packets from `source`. Returns how many arrive.
pub fn arrive(hosts: &Hosts, source: IpAddr) -> usize {
    // Packet sockets see packets that a program in the network stack drops.
    let receiver = on(&hosts.server, || UdpSocket::bind((SERVER, 9)).unwrap());
    let wait = Duration::from_millis(200);
    receiver.set_read_timeout(Some(wait)).unwrap();
    let from = Raw::open(&hosts.client);
    for _ in 0..10 {
        from.send(&hosts.frame(source).bytes());
    }
    (0..10)
        .take_while(|_| receiver.recv(&mut [0; 64]).is_ok())
        .count()
}

/// The metrics that the exporter at this address has; empty if there is none.
pub fn metrics(host: &Host, address: IpAddr) -> String {
    let ask = format!(
        "exec 3<>/dev/tcp/{address}/10546 && printf 'GET /metrics HTTP/1.0\\r\\nHost: {address}\\r\\n\\r\\n' >&3 && cat <&3"
    );
    let output = on(host, || Command::new("bash").args(["-c", &ask]).output()).unwrap();
    String::from_utf8(output.stdout).unwrap()
}

const ATTACH: &str = "attach eth0 --rate 1/h --burst 3";
const NEEDED: [&str; 3] = ["BPF", "NET_ADMIN", "PERFMON"];

/// One container attaches and ends. Another one, which may only read, exports. A third one detaches.
#[test]
fn containers_limit_and_export_with_few_capabilities() {
    need_kernel!();
    need_program!("crun");
    if !need::packages("package") {
        return;
    }
    let (hosts, bundle) = (Hosts::new(), Bundle::new());
    let server = &hosts.server;
    loopback_up(server);
    Image::unpack().extract(&bundle.root());
    let run = |name: &str, process: Process| bundle.run(server, name, &process);
    for missing in NEEDED {
        let others = NEEDED.join(" ").replace(missing, "");
        let refused = run(
            "refused",
            Process {
                pins: true,
                ..process(ATTACH, &others)
            },
        );
        refused.expect(1);
        assert!(
            refused.stderr.contains(&format!("CAP_{missing} (to")),
            "{refused:?}"
        );
    }
    let all = NEEDED.join(" ");
    let refused = run("refused", process(ATTACH, &all));
    assert!(
        refused.stderr.contains("Read-only file system"),
        "{refused:?}"
    );

    run(
        "attach",
        Process {
            pins: true,
            ..process(ATTACH, &all)
        },
    )
    .expect(0);
    assert_eq!(arrive(&hosts, CLIENT), 3);

    let mut exporter = bundle.start(server, "export", &process("export", "BPF"));
    let wanted = "limiter_interface_packets_total{interface=\"eth0\",verdict=\"drop\"} 7";
    eventually("the exporter counts the dropped packets", || {
        metrics(server, Ipv4Addr::LOCALHOST.into()).contains(wanted)
    });
    // Process 1 gets no signal that it does not handle. A runtime would wait, then kill it.
    assert!(exporter.ends());

    run(
        "detach",
        Process {
            pins: true,
            ..process("detach eth0", &all)
        },
    )
    .expect(0);
    assert_eq!(arrive(&hosts, CLIENT), 10);
}

//! A host does not start without limits: `attach --or-last` takes the last configuration that was in force if that of the
//! file cannot be applied, and says so wherever one looks.

use std::{fs, path::PathBuf, process::Stdio, thread, time::Duration};

use limiter_tests::{
    command::{Arguments as _, Outcome, ip, prepared},
    files::{Folder, at_driver},
    hosts::{Hosts, on},
    need_kernel,
};

/// A file whose list is in another one.
const FILE: &str = r#"
[lists]
deny = { file = "partners.txt" }
[[limit]]
name = "all"
rate = "10/s"
"#;

struct Host {
    hosts: Hosts,
    folder: Folder,
    file: String,
    last: PathBuf,
}

impl Host {
    /// A host with limiter on `eth0`, from the file.
    fn new() -> Self {
        let (hosts, folder) = (Hosts::new(), Folder::new());
        folder.write("partners.txt", "203.0.113.0/24\n");
        let file = folder.write("limiter.toml", at_driver(FILE));
        let pins = hosts.pins();
        let name = pins.file_name().unwrap().to_str().unwrap();
        let host = Self {
            hosts,
            file,
            last: folder.path(&format!("last/{name}.toml")).into(),
            folder,
        };
        host.start().expect(0);
        host
    }

    /// Runs `limiter` with the folder that systemd names for the unit.
    fn limiter(&self, words: &[&str]) -> Outcome {
        let mut command = prepared(words);
        command.env("STATE_DIRECTORY", self.folder.path(""));
        let output = on(&self.hosts.server, || command.output()).unwrap();
        Outcome::of(words.join(" "), output)
    }

    fn run(&self, line: &str) {
        self.limiter(&line.words()).expect(0);
    }

    /// Attaches as the unit does.
    fn start(&self) -> Outcome {
        self.limiter(&[
            "attach",
            "eth0",
            "--or-reload",
            "--or-last",
            "--config",
            &self.file,
        ])
    }

    fn write(&self, text: &str) {
        self.folder.write("limiter.toml", at_driver(text));
    }

    fn rate(&self) -> String {
        let status = self.hosts.status();
        status["limits"][0]["rate"].as_str().unwrap().to_owned()
    }
}

#[test]
fn last_configuration_limits_if_the_file_has_a_mistake() {
    need_kernel!();
    let host = Host::new();
    host.hosts.run("detach eth0");
    host.write("[[limit]]\nname = \"all\"\nrat = 5\n");
    fs::remove_file(host.folder.path("partners.txt")).unwrap();
    let started = host.start();
    started.expect(4);
    for words in [
        "limiter.toml, line 4: ",
        "WARNING: eth0 gets the last configuration",
    ] {
        assert!(started.stderr.contains(words), "'{words}': {started:#?}");
    }
    assert_eq!(host.rate(), "10/s");
    assert_eq!(host.hosts.run("deny list eth0"), "203.0.113.0/24\n");
    let status = host.hosts.run("status eth0");
    assert!(status.contains("LAST CONFIGURATION"), "{status}");
    let why = host.hosts.status()["instead_of_file"].clone();
    assert!(why.as_str().unwrap().contains(&host.file), "{why}");
    let doctor = host.hosts.limiter("doctor eth0");
    doctor.expect(1);
    assert!(
        doctor.stdout.contains("the last configuration is in force"),
        "{doctor:#?}"
    );
    // A change by hand does not make it the file's.
    host.hosts.run("set eth0 --burst 7");
    assert!(host.hosts.status()["instead_of_file"].is_string());
    host.hosts.limiter("reload eth0").expect(1);
    host.write("[[limit]]\nname = \"all\"\nrate = \"20/s\"\n");
    host.hosts.run("reload eth0");
    assert!(host.hosts.status()["instead_of_file"].is_null());
    assert_eq!(host.rate(), "20/s");
    assert_eq!(host.start().status, 0);
}

#[test]
fn settings_in_force_stay_and_without_last_ones_the_start_fails() {
    need_kernel!();
    let host = Host::new();
    host.write("rat = 5\n");
    // Limits are in force: nothing has to be done.
    host.start().expect(1);
    assert_eq!(host.rate(), "10/s");
    assert!(host.hosts.status()["instead_of_file"].is_null());
    host.hosts.run("detach eth0");
    let text = fs::read_to_string(&host.last).unwrap();
    for (content, words) in [
        (Some("rat = 5\n".to_owned()), "has a mistake"),
        (
            Some(text.replace("\"eth0\"", "\"eth1\"")),
            "of another interface",
        ),
        (None, "there is none"),
    ] {
        match content {
            Some(content) => fs::write(&host.last, content).unwrap(),
            None => fs::remove_file(&host.last).unwrap(),
        }
        let failed = host.start();
        failed.expect(1);
        for words in ["eth0 is NOT LIMITED", words] {
            assert!(failed.stderr.contains(words), "'{words}': {failed:#?}");
        }
    }
    // Only a start takes it.
    fs::write(&host.last, text).unwrap();
    let attach = ["attach", "eth0", "--or-reload", "--config", &host.file];
    host.limiter(&attach).expect(1);
    assert!(host.hosts.run("status").contains("not attached"));
}

#[test]
fn last_configuration_is_the_one_for_good() {
    need_kernel!();
    let host = Host::new();
    let last = || fs::read_to_string(&host.last).unwrap();
    host.run("set eth0 --rate 20/s");
    assert!(last().contains("20/s"), "{}", last());
    host.run("set eth0 --rate 30/s --try 1h");
    assert!(last().contains("20/s"), "{}", last());
    host.run("keep eth0");
    assert!(last().contains("30/s"), "{}", last());
    // Nor does a contradiction in the file leave the host without limits.
    host.hosts.run("detach eth0");
    fs::write(
        &host.file,
        "mode = \"xdp\"\n[[limit]]\nname = \"all\"\nrate = \"5Mbit\"\nmax_delay = \"1ms\"\n",
    )
    .unwrap();
    let started = host.start();
    started.expect(4);
    assert_eq!(host.rate(), "30/s", "{started:#?}");
}

#[test]
fn attach_waits_for_an_interface_that_comes_late() {
    need_kernel!();
    let hosts = Hosts::new();
    let none = hosts.limiter("attach late --rate 5/s --wait 1s");
    none.expect_error(1, &["late"]);
    let mut attach = prepared("attach late --rate 5/s --wait 60s");
    attach.stdout(Stdio::null());
    let mut attach = on(&hosts.server, || attach.spawn()).unwrap();
    thread::sleep(Duration::from_secs(1));
    ip(
        &hosts.server.namespace,
        "link add late type veth peer name other",
    );
    assert!(attach.wait().unwrap().success());
    assert!(hosts.run("status late").contains("late: "));
}

//! CrowdSec's decisions are bans within a moment, and end with them.

use std::{
    fs,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use limiter_tests::{
    command::binary,
    eventually,
    exporter::loopback_up,
    feeds::Feed,
    files::Folder,
    hosts::{Hosts, on},
    need, need_kernel,
    redis::certificates,
    service::{Protocol, Service},
    traffic::Traffic,
};

/// CrowdSec's local API with a database in a folder.
struct CrowdSec<'h> {
    hosts: &'h Hosts,
    folder: Folder,
}

impl<'h> CrowdSec<'h> {
    fn new(hosts: &'h Hosts) -> Self {
        let folder = Folder::new();
        let path = |name: &str| folder.path(name);
        folder.write("index.json", "{}");
        folder.write("acquis.yaml", "");
        folder.write("simulation.yaml", "simulation: false\n");
        folder.write("profiles.yaml", "name: none\nfilters: ['false']\n");
        folder.write("console.yaml", "share_manual_decisions: false\n");
        folder.write("credentials.yaml", "");
        let config = format!(
            "common: {{daemonize: false, log_media: stdout, working_dir: {0}}}\n\
             config_paths: {{config_dir: {0}, data_dir: {0}, simulation_path: {0}/simulation.yaml, hub_dir: {0}, index_path: {0}/index.json}}\n\
             crowdsec_service: {{acquisition_path: {0}/acquis.yaml}}\n\
             db_config: {{type: sqlite, db_path: {0}/crowdsec.db, use_wal: true}}\n\
             api:\n  client: {{credentials_path: {0}/credentials.yaml}}\n  \
             server: {{listen_uri: '127.0.0.1:8080', profiles_path: {0}/profiles.yaml, console_path: {0}/console.yaml}}\n\
             prometheus: {{enabled: false}}\n",
            path(".")
        );
        folder.write("config.yaml", config);
        let crowdsec = Self { hosts, folder };
        let credentials = crowdsec.folder.path("credentials.yaml");
        crowdsec.cscli(&[
            "machines",
            "add",
            "here",
            "--password",
            "secret",
            "--force",
            "-u",
            "http://127.0.0.1:8080",
            "-f",
            &credentials,
        ]);
        crowdsec.cscli(&["bouncers", "add", "limiter", "-k", "a-key"]);
        crowdsec
    }

    fn start(&self) -> Service {
        let config = self.folder.path("config.yaml");
        let line = ["crowdsec", "-c", &config, "-no-cs"];
        Service::start(&self.hosts.server, &line, Protocol::Tcp, 8080)
    }

    fn cscli(&self, words: &[&str]) {
        let mut command = Command::new("cscli");
        command
            .args(["-c", &self.folder.path("config.yaml")])
            .args(words);
        command.stdout(Stdio::null());
        eventually("CrowdSec's database is not locked", || {
            let done = on(&self.hosts.server, || command.output()).unwrap();
            let said = String::from_utf8_lossy(&done.stderr);
            // A feed that reads the decisions may keep SQLite from writing.
            let is_locked = said.contains("database is locked");
            assert!(done.status.success() || is_locked, "{done:?}");
            !is_locked
        });
    }

    /// Adds decisions for 10.0.0.0 and the addresses after it.
    fn import(&self, count: u32) {
        let mut rows = "value,duration,scope,type,reason\n".to_owned();
        for number in 0..count {
            let address = std::net::Ipv4Addr::from(0x0a00_0000 + number);
            rows += &format!("{address},4h,ip,ban,many\n");
        }
        let path = self.folder.write("many.csv", rows);
        self.cscli(&["decisions", "import", "-i", &path]);
    }
}

#[test]
fn decisions_of_crowdsec_are_bans_until_they_end() {
    const TEST: &str = "decisions_of_crowdsec_are_bans_until_they_end";
    need_kernel!();
    if !need::program(TEST, "crowdsec") {
        return;
    }
    let hosts = Hosts::new();
    loopback_up(&hosts.server);
    hosts.run("attach eth0 --rate 1000000 --burst 1000000");
    let crowdsec = CrowdSec::new(&hosts);
    let server = crowdsec.start();
    let feed = Feed::new(&hosts, "crowdsec");
    let key = feed.write("key", "a-key\n");
    let wrong = feed.write("wrong", "another\n");
    let configure = |key: &str| {
        feed.configure(&format!(
            "crowdsec = 'http://127.0.0.1:8080/'\nkey-file = '{key}'\ninterval = '1s'"
        ))
    };
    configure(&wrong);
    feed.once("--once")
        .expect_error(1, &["refuses the key", "cscli bouncers list"]);
    configure(&key);
    hosts.run("ban eth0 192.0.2.8 --reason mine");
    let process = feed.start(Duration::from_secs(120));
    eventually("the feed is in step", || {
        feed.status()["succeeded"].is_u64()
    });

    let traffic = Traffic::new(&hosts);
    for (option, value, source) in [
        ("--ip", "192.0.2.7", "192.0.2.7"),
        ("--range", "198.51.100.0/24", "198.51.100.9"),
        ("--ip", "2001:db8::7", "2001:db8::7"),
        ("--ip", "192.0.2.8", "192.0.2.8"),
    ] {
        let is_own = source != "192.0.2.8";
        assert_eq!(traffic.passed(source, 3) == 3, is_own, "{source}");
        crowdsec.cscli(&["decisions", "add", option, value, "--duration", "1h"]);
        let begin = Instant::now();
        eventually("the ban", || traffic.passed(source, 1) == 0);
        // Beside the ban by hand, too.
        eventually("the feed's ban", || feed.bans() == [value]);
        println!(
            "{value}: {:.1?} from the decision to the first drop",
            begin.elapsed()
        );
        crowdsec.cscli(&["decisions", "delete", option, value]);
        if is_own {
            eventually("its end", || traffic.passed(source, 1) == 1);
        }
    }
    eventually("no decision is left", || feed.bans().is_empty());
    assert_eq!(traffic.passed("192.0.2.8", 3), 0);

    // A restart loses nothing, and decisions of that time are found.
    crowdsec.cscli(&["decisions", "add", "--ip", "192.0.2.7"]);
    eventually("the ban", || feed.bans() == ["192.0.2.7"]);
    drop(server);
    eventually("the error", || feed.status()["error"].is_string());
    assert_eq!(traffic.passed("192.0.2.7", 3), 0);
    let server = crowdsec.start();
    crowdsec.cscli(&["decisions", "add", "--ip", "192.0.2.9"]);
    eventually("both bans", || feed.bans() == ["192.0.2.7", "192.0.2.9"]);
    eventually("no error", || feed.status()["error"].is_null());

    let begin = Instant::now();
    crowdsec.import(10_000);
    let imported = begin.elapsed();
    eventually("all bans", || feed.status()["wanted"] == 10_002);
    println!(
        "10,000 decisions: imported within {imported:.1?}, bans {:.1?} later",
        begin.elapsed() - imported
    );
    assert_eq!(feed.bans().len(), 10_002);
    limiter_tests::feeds::end(process, nix::sys::signal::Signal::SIGTERM);
    assert_eq!(feed.bans().len(), 10_002);
    let left = Duration::from_secs(4 * 3600);
    let shown = hosts.json("bans eth0 --json");
    for ban in shown["bans"].as_array().unwrap() {
        let seconds = ban["left_seconds"].as_f64();
        let is_mine = ban["origin"] == "hand";
        assert_eq!(seconds.is_none(), is_mine, "{ban}");
        assert!(
            seconds.is_none_or(|remaining| remaining > 3_000.0 && remaining <= left.as_secs_f64()),
            "{ban}"
        );
    }

    // With TLS, the certificate must be of an authority that this host trusts.
    drop(server);
    let certificates = certificates("127.0.0.1");
    let file = |name: &str| certificates.path().join(name).display().to_string();
    let path = crowdsec.folder.path("config.yaml");
    let tls = format!(
        "server: {{tls: {{cert_file: {}, key_file: {}}}, ",
        file("host.pem"),
        file("host.key")
    );
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("server: {", &tls)).unwrap();
    let _server = crowdsec.start();
    feed.once("--remove").expect(0);
    let config = feed.configure(&format!(
        "crowdsec = 'https://127.0.0.1:8080/'\nkey-file = '{key}'"
    ));
    feed.once("--once").expect_error(1, &["certificate"]);
    assert_eq!(feed.bans(), [""; 0]);
    let mut trusting = Command::new(binary());
    trusting.args(["feed", &config, "--once"]);
    trusting.env("SSL_CERT_FILE", file("ca.pem"));
    let done = on(&hosts.server, || trusting.output()).unwrap();
    assert!(done.status.success(), "{done:?}");
    assert_eq!(feed.bans().len(), 10_002);
}

#[test]
fn operator_chooses_decisions_and_a_certificate_takes_the_place_of_the_key() {
    const TEST: &str = "operator_chooses_decisions_and_a_certificate_takes_the_place_of_the_key";
    need_kernel!();
    if !need::program(TEST, "crowdsec") {
        return;
    }
    let hosts = Hosts::new();
    loopback_up(&hosts.server);
    hosts.run("attach eth0 --rate 1000000 --burst 1000000");
    let crowdsec = CrowdSec::new(&hosts);
    let certificates = certificates("127.0.0.1");
    let file = |name: &str| certificates.path().join(name).display().to_string();
    for line in [
        "req -nodes -newkey ec -pkeyopt ec_paramgen_curve:P-256 -keyout feed.key -out feed.csr -subj /CN=feed/OU=limiter",
        "x509 -req -in feed.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile extension -out feed.pem",
    ] {
        let mut command = Command::new("openssl");
        command.args(line.split(' ')).current_dir(&certificates);
        assert!(command.output().unwrap().status.success(), "{line}");
    }
    let server = crowdsec.start();
    // The longer decision of another origin must not hide the local one.
    crowdsec.import(2);
    crowdsec.cscli(&["decisions", "add", "--ip", "10.0.0.1", "--duration", "1h"]);
    let country = ["decisions", "add", "--scope", "country", "--value", "FR"];
    crowdsec.cscli(&country);
    let feed = Feed::new(&hosts, "chosen");
    let key = feed.write("key", "a-key\n");
    let configure = |lines: &str| {
        let url = "http://127.0.0.1:8080";
        feed.configure(&format!("crowdsec = '{url}'\nkey-file = '{key}'\n{lines}"));
    };
    let both = &["10.0.0.0", "10.0.0.1"][..];
    for (choice, bans, has_country) in [
        ("origins = ['cscli']", &["10.0.0.1"][..], true),
        ("origins = ['cscli-import']", both, false),
        ("scenarios-containing = ['MANY']", both, false),
        ("scenarios-not-containing = ['many']", &["10.0.0.1"], true),
        ("scopes = ['range']", &[], false),
        ("", both, true),
    ] {
        configure(choice);
        let once = feed.once("--once");
        once.expect(0);
        assert_eq!(feed.bans(), bans, "{choice}: {once:?}");
        let is_country = once.stderr.contains("'ban' of Country FR");
        assert_eq!(is_country, has_country, "{choice}: {once:?}");
        feed.once("--remove").expect(0);
    }
    // The end of the longer decision leaves the shorter one, which the chosen origins have.
    configure("origins = ['cscli', 'cscli-import']\ninterval = '1s'");
    let process = feed.start(Duration::from_secs(60));
    eventually("both bans", || feed.bans() == ["10.0.0.0", "10.0.0.1"]);
    crowdsec.cscli(&["decisions", "delete", "--scenario", "many"]);
    eventually("the end of one ban", || feed.bans() == ["10.0.0.1"]);
    limiter_tests::feeds::end(process, nix::sys::signal::Signal::SIGTERM);
    let left = || {
        let shown = hosts.json("bans eth0 --json");
        shown["bans"][0]["left_seconds"].as_f64().unwrap()
    };
    eventually("the end of the shorter decision", || left() <= 3_600.0);

    drop(server);
    let path = crowdsec.folder.path("config.yaml");
    let tls = format!(
        "server: {{tls: {{cert_file: {}, key_file: {}, ca_cert_path: {}, client_verification: VerifyClientCertIfGiven, bouncers_allowed_ou: [limiter]}}, ",
        file("host.pem"),
        file("host.key"),
        file("ca.pem")
    );
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("server: {", &tls)).unwrap();
    let _server = crowdsec.start();
    feed.once("--remove").expect(0);
    let secure = |certificate: &str, key: &str| {
        let [certificate, key, authority] = [
            format!("{certificate}.pem"),
            format!("{key}.key"),
            "ca.pem".to_owned(),
        ]
        .map(|name| file(&name));
        feed.configure(&format!(
            "crowdsec = 'https://127.0.0.1:8080/'\ncertificate-file = '{certificate}'\ncertificate-key-file = '{key}'\nauthority-file = '{authority}'"
        ));
    };
    // This one has no OU.
    secure("host", "host");
    feed.once("--once")
        .expect_error(1, &["refuses the certificate", "bouncers_allowed_ou"]);
    secure("feed", "host");
    feed.once("--once")
        .expect_error(1, &["feed.pem", "cannot be used with its key"]);
    secure("feed", "feed");
    feed.once("--once").expect(0);
    assert_eq!(feed.bans(), ["10.0.0.1"]);
}

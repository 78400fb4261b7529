//! A real Prometheus reads the exported metrics and answers all documented queries.

use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use limiter_tests::{
    eventually,
    exporter::{Answer, Exporter, PATIENCE},
    hosts::{Hosts, on},
    need, need_kernel,
    raw::Raw,
    service::{Protocol, Service},
    traffic::udp,
};
use serde_json::Value;

const PROGRAMS: [&str; 2] = ["prometheus", "promtool"];

fn is_there(test: &str) -> bool {
    PROGRAMS.iter().all(|program| need::program(test, program))
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()
        .unwrap()
}

/// Runs promtool in the folder of the rules, with `input` on standard input. Panics if it finds an error.
fn promtool(arguments: &[&str], input: &str) {
    let mut command = Command::new("promtool");
    command
        .args(arguments)
        .current_dir(repository().join("packaging/prometheus"));
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut tool = command.spawn().unwrap();
    tool.stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = tool.wait_with_output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
}

#[test]
fn alert_rules_pass_their_tests() {
    if !is_there("alert_rules_pass_their_tests") {
        return;
    }
    promtool(&["check", "rules", "--lint-fatal", "limiter.rules.yml"], "");
    promtool(&["test", "rules", "limiter.rules.test.yml"], "");
    // The tests for the rules cover each rule.
    let read = |file: &str| {
        fs::read_to_string(repository().join("packaging/prometheus").join(file)).unwrap()
    };
    let (rules, tests) = (read("limiter.rules.yml"), read("limiter.rules.test.yml"));
    let alerts: Vec<_> = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "))
        .collect();
    assert!(alerts.len() >= 9, "{alerts:?}");
    for alert in alerts {
        assert!(
            tests.contains(&format!("alertname: {alert}\n        exp_alerts")),
            "{alert} is not tested"
        );
    }
}

/// A Prometheus on the server that scrapes the exporter every second.
struct Prometheus<'h> {
    hosts: &'h Hosts,
    _service: Service,
    _folder: tempfile::TempDir,
}

impl<'h> Prometheus<'h> {
    fn start(hosts: &'h Hosts, exporter: &Exporter<'_>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let rules = repository().join("packaging/prometheus/limiter.rules.yml");
        let file = folder.path().join("prometheus.yml");
        let text = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: ['{}']\n\
             scrape_configs:\n- job_name: limiter\n  static_configs:\n  - targets: ['{}']\n",
            rules.display(),
            exporter.address
        );
        fs::write(&file, text).unwrap();
        let config = format!("--config.file={}", file.display());
        let data = format!(
            "--storage.tsdb.path={}",
            folder.path().join("data").display()
        );
        let listen = "--web.listen-address=127.0.0.1:9090";
        let line = ["prometheus", &config, &data, listen, "--log.level=error"];
        let prometheus = Self {
            hosts,
            _service: Service::start(&hosts.server, &line, Protocol::Tcp, 9090),
            _folder: folder,
        };
        eventually("Prometheus is ready", || {
            prometheus.get("/-/ready").status == 200
        });
        prometheus
    }

    /// Gets a page of Prometheus.
    fn get(&self, path: &str) -> Answer {
        let connect = || TcpStream::connect("127.0.0.1:9090");
        let mut stream = on(&self.hosts.server, connect).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // HTTP/1.0 has no chunks.
        write!(stream, "GET {path} HTTP/1.0\r\nHost: x\r\n\r\n").unwrap();
        Answer::read(&mut stream)
    }

    /// The data of an answer of Prometheus' API.
    fn api(&self, path: &str) -> Value {
        let answer = self.get(&format!("/api/v1/{path}"));
        let mut json: Value =
            serde_json::from_str(&answer.body).unwrap_or_else(|_| panic!("{path}: {answer:?}"));
        assert_eq!(json["status"], "success", "{path}: {json}");
        json["data"].take()
    }

    /// The result of a query.
    fn query(&self, query: &str) -> Vec<Value> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let mut data = self.api(&format!("query?query={encoded}"));
        match data["result"].take() {
            Value::Array(result) => result,
            other => panic!("{query}: {other}"),
        }
    }
}

/// Sends packets until `over`, for at most two minutes.
fn send(hosts: &Hosts, over: &AtomicBool) {
    let wire = Raw::open(&hosts.client);
    let frame = udp(hosts, "203.0.113.7".parse().unwrap(), 9);
    for _ in 0..12_000 {
        if over.load(Ordering::Relaxed) {
            break;
        }
        wire.send(&frame);
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn prometheus_scrapes_the_packets_that_were_sent() {
    need_kernel!();
    if !is_there("prometheus_scrapes_the_packets_that_were_sent") {
        return;
    }
    let hosts = Hosts::new();
    hosts.attach_file(
        "interfaces = ['eth0']\n[lists]\ndeny = ['203.0.113.66']\n\
         [[limit]]\nname = 'all'\nrate = '20/s'\nburst = 5\n\
         [[limit]]\nname = 'watched'\nrate = '10/s'\nburst = 5\nshadow = true\n",
    );
    let exporter = Exporter::start(&hosts.server);
    promtool(&["check", "metrics"], &exporter.get("/metrics"));
    let prometheus = Prometheus::start(&hosts, &exporter);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| send(&hosts, &over));
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            eventually("Prometheus has scraped for a while", || {
                let scraped = "count_over_time(up{job='limiter'}[2m]) >= 10";
                !prometheus.query(scraped).is_empty()
            });
            everything_documented_can_be_asked(&prometheus, &exporter);
        }));
        over.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    let up = prometheus.query("min_over_time(up{job='limiter'}[2m]) == 1");
    assert_eq!(up.len(), 1, "the exporter was down");
    // Prometheus has the exporter's counters, after the last packet.
    let dropped = "limiter_drops_total{interface=\"eth0\",reason=\"limit\"}";
    eventually("Prometheus has the exporter's counters", || {
        let found = prometheus.query("limiter_drops_total{reason='limit'}");
        let value = found[0]["value"][1].as_str().unwrap().to_owned();
        value.parse::<f64>().unwrap() == exporter.samples()[dropped] && value != "0"
    });

    let rules = prometheus.api("rules");
    let rules = rules["groups"][0]["rules"].as_array().unwrap();
    assert!(rules.len() >= 9);
    for rule in rules {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
}

/// Panics unless every documented query has an answer, and the reference lists every metric.
fn everything_documented_can_be_asked(prometheus: &Prometheus<'_>, exporter: &Exporter<'_>) {
    let reference = fs::read_to_string(repository().join("docs/metrics.md")).unwrap();
    let mut queries: Vec<&str> = reference
        .split("```promql\n")
        .skip(1)
        .map(|rest| rest.split("\n```").next().unwrap())
        .collect();
    assert!(queries.len() > 15, "{queries:?}");
    let names: BTreeSet<String> = exporter
        .samples()
        .into_keys()
        .map(|name| name.split('{').next().unwrap().to_owned())
        .collect();
    for name in &names {
        assert!(
            reference.contains(&format!("`{name}")),
            "{name} is not in the reference"
        );
        assert!(
            queries.iter().any(|query| query.contains(name.as_str())),
            "no example of {name}"
        );
    }
    let dashboard: Value = serde_json::from_str(
        &fs::read_to_string(repository().join("packaging/grafana/limiter.json")).unwrap(),
    )
    .unwrap();
    let targets = dashboard["panels"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap());
    let of_dashboard: Vec<&str> = targets
        .map(|target| target["expr"].as_str().unwrap())
        .collect();
    assert!(of_dashboard.len() > 12);
    queries.extend(of_dashboard);
    for query in queries {
        let query = query
            .replace("$__rate_interval", "1m")
            .replace("$instance", ".*")
            .replace("$interface", ".*");
        assert!(
            !query.contains('$'),
            "{query}: a variable that Grafana would not know"
        );
        // A comparison only has an answer if it is true.
        let empty = prometheus.query(&query).is_empty();
        assert!(!empty || query.contains("=="), "{query}: nothing");
    }
    // The variables of the dashboard.
    for variable in dashboard["templating"]["list"]
        .as_array()
        .unwrap()
        .iter()
        .skip(1)
    {
        let definition = variable["query"]["query"].as_str().unwrap();
        let series = definition
            .trim_start_matches("label_values(")
            .rsplit_once(", ")
            .unwrap()
            .0;
        assert!(
            !prometheus
                .query(&series.replace("$instance", ".*"))
                .is_empty(),
            "{definition}"
        );
    }
}

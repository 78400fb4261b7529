//! A real Prometheus reads the exported metrics and answers all documented queries.

use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use limiter_tests::{
    eventually,
    exporter::{Answer, Exporter, PATIENCE},
    feeds::{Feed, end},
    hosts::{Hosts, on},
    need, need_kernel,
    service::{Protocol, Service},
    traffic::{Flood, udp},
};
use nix::sys::signal::Signal;
use serde_json::Value;

fn is_there(test: &str) -> bool {
    let programs = ["prometheus", "promtool"];
    programs.iter().all(|program| need::program(test, program))
}

/// The path of a file of the repository.
fn repository(file: &str) -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.join("..").canonicalize().unwrap().join(file)
}

fn text(file: &str) -> String {
    fs::read_to_string(repository(file)).unwrap()
}

/// Runs promtool in the folder of the rules, with `input` on standard input. Panics if it finds an error.
fn promtool(arguments: &[&str], input: &str) {
    let mut command = Command::new("promtool");
    command.args(arguments).stdin(Stdio::piped());
    command.current_dir(repository("packaging/prometheus"));
    let mut tool = command.spawn().unwrap();
    let mut pipe = tool.stdin.take().unwrap();
    pipe.write_all(input.as_bytes()).unwrap();
    drop(pipe);
    assert!(tool.wait().unwrap().success(), "{arguments:?}");
}

#[test]
fn alert_rules_pass_their_tests() {
    if !is_there("alert_rules_pass_their_tests") {
        return;
    }
    promtool(&["check", "rules", "--lint-fatal", "limiter.rules.yml"], "");
    promtool(&["test", "rules", "limiter.rules.test.yml"], "");
    // The tests for the rules cover each rule.
    let rules = text("packaging/prometheus/limiter.rules.yml");
    let tests = text("packaging/prometheus/limiter.rules.test.yml");
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
        let file = folder.path().join("prometheus.yml");
        let text = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: ['{}']\n\
             scrape_configs:\n- job_name: limiter\n  static_configs:\n  - targets: ['{}']\n",
            repository("packaging/prometheus/limiter.rules.yml").display(),
            exporter.address
        );
        fs::write(&file, text).unwrap();
        let config = format!("--config.file={}", file.display());
        let data = format!("--storage.tsdb.path={}/data", folder.path().display());
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
        Answer::read(&mut stream).unwrap()
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

#[test]
fn prometheus_scrapes_the_packets_that_were_sent() {
    need_kernel!();
    if !is_there("prometheus_scrapes_the_packets_that_were_sent") {
        return;
    }
    let hosts = Hosts::new();
    hosts.attach_file(
        "interfaces = ['eth0']\nfleet = 'edge'\n[lists]\ndeny = ['203.0.113.66']\n\
         [[limit]]\nname = 'all'\nrate = '20/s'\nburst = 5\nscope = 'fleet'\n\
         [[limit]]\nname = 'watched'\nrate = '10/s'\nburst = 5\nhold = '1s'\nshadow = true\n\
         [[limit]]\nname = 'open'\nmatch = { protocol = 'tcp' }\nrate = '1k/s'\nconnections = 50\n",
    );
    hosts.run("ban eth0 203.0.113.88");
    let feed = Feed::new(&hosts, "prometheus");
    let list = feed.write("list", "203.0.113.89\n");
    feed.configure(&format!("list = '{list}'"));
    let process = feed.start(Duration::from_secs(120));
    eventually("the feed runs", || feed.status()["succeeded"].is_u64());
    let exporter = Exporter::start(&hosts.server);
    promtool(&["check", "metrics"], &exporter.get("/metrics"));
    let prometheus = Prometheus::start(&hosts, &exporter);
    let frame = udp(&hosts, "203.0.113.7".parse().unwrap(), 9);
    let flood = Flood::start(&hosts, vec![frame], Duration::from_millis(10));
    eventually("Prometheus has scraped for a while", || {
        let scraped = "count_over_time(up{job='limiter'}[2m]) >= 10";
        !prometheus.query(scraped).is_empty()
    });
    everything_documented_can_be_asked(&prometheus, &exporter);
    // Only OpenMetrics has units.
    let described = prometheus.api("metadata?metric=limiter_delay_seconds");
    assert_eq!(described["limiter_delay_seconds"][0]["unit"], "seconds");
    drop(flood);
    end(process, Signal::SIGTERM);
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

/// Metrics that need an agent with a store, or `limiter adapt`, which do not run here.
const ABSENT: [&str; 3] = [
    "limiter_fleet_overshoot_packets",
    "limiter_fleet_staleness_seconds",
    "limiter_rate_ratio",
];

/// Panics unless every documented query has an answer, and the reference lists every metric.
fn everything_documented_can_be_asked(prometheus: &Prometheus<'_>, exporter: &Exporter<'_>) {
    let reference = text("docs/metrics.md");
    let blocks = reference.split("```promql\n").skip(1);
    let mut queries: Vec<&str> = blocks
        .map(|block| block.split("\n```").next().unwrap())
        .collect();
    assert!(queries.len() > 15, "{queries:?}");
    let samples = exporter.samples().into_keys();
    let names: BTreeSet<String> = samples
        .map(|name| name.split('{').next().unwrap().to_owned())
        .collect();
    for name in &names {
        let is_listed = reference.contains(&format!("`{name}"));
        assert!(is_listed, "{name} is not in the reference");
        let is_used = queries.iter().any(|query| query.contains(name.as_str()));
        assert!(is_used, "no example of {name}");
    }
    let dashboard: Value = serde_json::from_str(&text("packaging/grafana/limiter.json")).unwrap();
    let array = |value: &Value| value.as_array().unwrap().clone();
    let targets: Vec<_> = array(&dashboard["panels"])
        .iter()
        .flat_map(|panel| array(&panel["targets"]))
        .collect();
    assert!(targets.len() > 30);
    let of_dashboard = targets
        .iter()
        .map(|target| target["expr"].as_str().unwrap());
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
        let compares = query.contains("==") || query.ends_with("> 0");
        let may_be_empty = compares || ABSENT.iter().any(|name| query.contains(name));
        assert!(!empty || may_be_empty, "{query}: nothing");
    }
    // The variables of the dashboard.
    for variable in array(&dashboard["templating"]["list"]).iter().skip(1) {
        let definition = variable["query"]["query"].as_str().unwrap();
        let series = definition.trim_start_matches("label_values(");
        let series = series.rsplit_once(", ").unwrap().0;
        let found = prometheus.query(&series.replace("$instance", ".*"));
        assert!(!found.is_empty(), "{definition}");
    }
}

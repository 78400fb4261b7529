//! The metrics are valid in both formats, by the parsers of Prometheus' own Python library.

use std::process::Command;

use limiter_tests::{
    exporter::Exporter,
    hosts::{Hosts, on},
    need, need_kernel,
    traffic::Traffic,
};

/// Debian's interpreter, which finds Debian's modules.
const PYTHON: &str = "/usr/bin/python3";

/// Reads the metrics at the URL in both formats, plain and compressed, with the headers that Prometheus 2 and 3 send.
/// Each has the same families with the same samples.
const VALIDATE: &str = r#"
import gzip, sys, urllib.request
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client import parser as text

OPEN = "application/openmetrics-text; version=1.0.0; charset=utf-8"
TEXT = "text/plain; version=0.0.4; charset=utf-8"

def read(accept, kind, parser, compressed):
    headers = {"Accept": accept} | ({"Accept-Encoding": "gzip"} if compressed else {})
    with urllib.request.urlopen(urllib.request.Request(sys.argv[1], headers=headers)) as answer:
        body = answer.read()
        assert answer.headers["content-type"] == kind, answer.headers["content-type"]
        assert (answer.headers["content-encoding"] == "gzip") == compressed, answer.headers
        assert "accept" in answer.headers.get_all("vary"), answer.headers
    size = len(body)
    body = gzip.decompress(body) if compressed else body
    assert not compressed or size * 3 < len(body), (size, len(body))
    families = list(parser.text_string_to_metric_families(body.decode()))
    samples = {(sample.name, tuple(sorted(sample.labels.items()))): sample.value
               for family in families for sample in family.samples}
    for name in ["limiter_collection_duration_seconds", "limiter_events_lost_total"]:
        samples = {key: value for key, value in samples.items() if key[0] != name}
    assert all(family.documentation for family in families)
    return families, samples

prometheus2 = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
prometheus3 = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
readings = [
    read(prometheus2, OPEN, openmetrics, False),
    read(prometheus3, OPEN, openmetrics, True),
    read("text/plain;version=0.0.4;q=1,*/*;q=0.1", TEXT, text, False),
    read("*/*", TEXT, text, True),
]
samples = [samples for _, samples in readings]
assert all(other == samples[0] for other in samples), samples
families = {family.name: family for family in readings[0][0]}
kinds = {name: (family.type, family.unit) for name, family in families.items()}
for name, kind in [
    ("limiter_drops", ("counter", "")),
    ("limiter_interface_bytes", ("counter", "bytes")),
    ("limiter_delay_seconds", ("histogram", "seconds")),
    ("limiter_attached", ("info", "")),
    ("limiter_sources", ("gauge", "")),
]:
    assert kinds[name] == kind, (name, kinds[name])
assert all(dict(labels)["site"] == "fra1" for _, labels in samples[0]), samples[0]
for reason in ["answered", "ban"]:
    assert f" {reason} (" in families["limiter_drops"].documentation + " ", families["limiter_drops"]
print(len(samples[0]))
"#;

#[test]
fn metrics_are_valid_in_both_formats_plain_and_compressed() {
    need_kernel!();
    let test = "metrics_are_valid_in_both_formats_plain_and_compressed";
    let import = Command::new(PYTHON)
        .args(["-c", "import prometheus_client"])
        .output();
    if !import.is_ok_and(|import| import.status.success()) {
        need::missing(test, "no python3-prometheus-client");
        return;
    }
    let hosts = Hosts::new();
    hosts.attach_file(
        "interfaces = ['eth0']\n[lists]\ndeny = ['203.0.113.66']\n\
         [[limit]]\nname = 'web'\nrate = '1/h'\nburst = 4\nhold = '1h'\n",
    );
    let traffic = Traffic::new(&hosts);
    for (source, count) in [("203.0.113.1", 10), ("203.0.113.66", 5)] {
        traffic.passed(source, count);
    }
    let exporter = Exporter::start_with(&hosts.server, &["--label", "site=fra1"]);
    let url = format!("http://{}/metrics", exporter.address);
    let mut python = Command::new(PYTHON);
    python.args(["-c", VALIDATE, &url]);
    let output = on(&hosts.server, || python.output()).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let samples: u32 = String::from_utf8_lossy(&output.stdout)
        .trim()
        .parse()
        .unwrap();
    assert!(samples > 40, "{samples}");
}

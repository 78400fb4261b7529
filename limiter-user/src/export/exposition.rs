//! Writes the metrics in the text format of Prometheus.

use std::fmt::Write;

use super::{
    collection::Reading,
    metrics::{METRICS, Metric, Value},
    samples::Sample,
};

/// Writes all metrics that have samples, in the text format 0.0.4 of Prometheus.
pub fn text(reading: &Reading) -> String {
    let mut text = String::new();
    for metric in METRICS {
        let samples = samples(metric, reading);
        if samples.is_empty() {
            continue;
        }
        let (name, kind) = (metric.name, metric.kind);
        let _ = writeln!(text, "# HELP {name} {}", metric.help.trim_start());
        let _ = writeln!(text, "# TYPE {name} {}", kind.name());
        for ending in kind.endings() {
            for sample in samples.iter().filter(|sample| sample.ending == *ending) {
                let labels = sample.in_braces();
                let _ = writeln!(text, "{name}{ending}{labels} {}", sample.value);
            }
        }
    }
    text
}

fn samples(metric: &Metric, reading: &Reading) -> Vec<Sample> {
    if let Value::Host(value) = metric.value {
        return value(reading);
    }
    let snapshot = &reading.snapshot;
    let mut all = Vec::new();
    for (interface, top) in snapshot.status.interfaces.iter().zip(&snapshot.tops) {
        let mut samples = match metric.value {
            Value::Host(_) => Vec::new(),
            Value::Interface(value) => value(interface),
            Value::Top(value) => value(top),
            Value::Fleet(value) => interface.fleet.as_ref().map_or_else(Vec::new, value),
        };
        for sample in &mut samples {
            let name = interface.name.clone();
            sample.labels.insert(0, ("interface", name));
        }
        all.append(&mut samples);
    }
    all
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, time::Duration};

    use super::*;

    /// The exporter's answer about two interfaces with everything that has a metric.
    const SNAPSHOT: &str = include_str!("snapshot.json");

    #[test]
    fn every_metric_has_a_name_of_its_own_and_samples() {
        let reading = Reading {
            at: Duration::ZERO,
            snapshot: serde_json::from_str(SNAPSHOT).unwrap(),
            took: Duration::from_millis(5),
        };
        let names: BTreeSet<_> = METRICS.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), METRICS.len());
        let text = text(&reading);
        for metric in METRICS {
            let found = samples(metric, &reading);
            let all = metric.kind.endings();
            let has = |ending: &&str| found.iter().any(|sample| sample.ending == *ending);
            assert!(all.iter().all(has), "{}: {found:?}", metric.name);
            let written = text.matches(&format!("\n{}", metric.name)).count();
            assert!(written >= found.len(), "{}: {text}", metric.name);
        }
    }
}

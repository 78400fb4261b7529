//! Writes the metrics in the text format of Prometheus, or as OpenMetrics.

use std::{fmt, sync::Arc};

use mediatype::{MediaType, MediaTypeList, Name, ReadParams, names};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, prometheus_text, text},
    registry::Registry,
};

use super::{
    collection::Reading,
    metrics::{METRICS, Metric, Subject},
    samples::Sample,
};

const VERSION: Name<'_> = Name::new_unchecked("version");

/// The format of an exposition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The text format 0.0.4 of Prometheus.
    Text,
    /// `OpenMetrics` 1.0.0.
    OpenMetrics,
}

impl Format {
    /// The content type.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Text => prometheus_text::CONTENT_TYPE,
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// The format for a request with this `Accept` header, which may be empty (RFC 9110, 12.5.1). Clients that do not
    /// name `OpenMetrics` get the text format, also if they accept neither: any answer says more than an error.
    pub fn accepted(accept: &str) -> Self {
        let quality = |format: Self| {
            let ranges = MediaTypeList::new(accept).filter_map(Result::ok);
            let fitting = ranges.filter(|range| format.fits(range));
            fitting.map(|range| quality(&range)).fold(0.0, f32::max)
        };
        let open_metrics = quality(Self::OpenMetrics);
        match open_metrics > 0.0 && open_metrics >= quality(Self::Text) {
            true => Self::OpenMetrics,
            false => Self::Text,
        }
    }

    /// Returns true if the range of an `Accept` header means this format. Its other parameters, such as `escaping`, are
    /// about names that the exporter does not use.
    fn fits(self, range: &MediaType<'_>) -> bool {
        let version = range.get_param(VERSION);
        match self {
            Self::Text => match range.ty.as_str() {
                "*" => true,
                kind => {
                    kind.eq_ignore_ascii_case("text")
                        && matches!(range.subty.as_str(), "*" | "plain")
                }
            },
            Self::OpenMetrics => {
                range.ty == names::APPLICATION
                    && range
                        .subty
                        .as_str()
                        .eq_ignore_ascii_case("openmetrics-text")
                    && version.is_none_or(|version| version.unquoted_str() == "1.0.0")
            }
        }
    }

    /// Writes all metrics that have samples. Each sample has the `labels` too.
    pub fn write(self, reading: &Arc<Reading>, labels: &[(String, String)]) -> String {
        let owned = labels.iter().cloned();
        let labels = owned.map(|(name, value)| (name.into(), value.into()));
        let mut registry = Registry::with_labels(labels);
        registry.register_collector(Box::new(Exposition(Arc::clone(reading))));
        let mut written = String::new();
        let result = match self {
            Self::Text => prometheus_text::encode(&mut written, &registry),
            Self::OpenMetrics => text::encode(&mut written, &registry),
        };
        debug_assert!(result.is_ok(), "writing to a string cannot fail");
        written
    }
}

fn quality(range: &MediaType<'_>) -> f32 {
    let quality = range.get_param(names::Q);
    quality.map_or(1.0, |quality| quality.as_str().parse().unwrap_or(0.0))
}

/// The metrics of a reading.
#[derive(Debug)]
struct Exposition(Arc<Reading>);

impl Collector for Exposition {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for metric in METRICS {
            let samples = samples(metric, &self.0);
            if samples.is_empty() {
                continue;
            }
            let ((name, unit), kind) = (metric.parts(), metric.kind);
            let mut encoder =
                encoder.encode_descriptor(name, &metric.help(), unit.as_ref(), kind)?;
            for sample in samples {
                sample.encode(&mut encoder, kind)?;
            }
        }
        Ok(())
    }
}

fn samples(metric: &Metric, reading: &Reading) -> Vec<Sample> {
    if let Subject::Host(samples) = metric.subject {
        return samples(reading);
    }
    let snapshot = &reading.snapshot;
    let mut all = Vec::new();
    for (interface, top) in snapshot.status.interfaces.iter().zip(&snapshot.tops) {
        let mut samples = match metric.subject {
            Subject::Host(_) => Vec::new(),
            Subject::Interface(samples) => samples(interface),
            Subject::Top(samples) => samples(top),
            Subject::Fleet(samples) => interface.fleet.as_ref().map_or_else(Vec::new, samples),
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

    use prometheus_client::metrics::MetricType;

    use super::*;
    use crate::{
        export::metrics::LABELS,
        observe::{Drops, Passes},
    };

    /// The exporter's answer about two interfaces with everything that has a metric.
    const SNAPSHOT: &str = include_str!("snapshot.json");

    fn reading() -> Arc<Reading> {
        Arc::new(Reading {
            at: Duration::ZERO,
            snapshot: serde_json::from_str(SNAPSHOT).unwrap(),
            took: Duration::from_millis(5),
        })
    }

    /// The lines of samples of an exposition, sorted.
    fn lines(exposition: &str) -> BTreeSet<&str> {
        let lines = exposition.lines();
        lines.filter(|line| !line.starts_with('#')).collect()
    }

    #[test]
    fn every_metric_has_a_name_of_its_own_and_samples() {
        let reading = reading();
        let text = Format::Text.write(&reading, &[]);
        let names: BTreeSet<_> = METRICS.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), METRICS.len());
        for metric in METRICS {
            let (name, help) = (metric.name, metric.help());
            let kind = match metric.kind {
                MetricType::Info => "gauge",
                _ => metric.kind.as_str(),
            };
            let described = format!("# HELP {name} {help}\n# TYPE {name} {kind}\n{name}");
            assert!(text.contains(&described), "{described}: {text}");
            assert!(!help.contains(['\\', '"', '{']), "{help}: needs escapes");
        }
    }

    #[test]
    fn help_names_every_reason() {
        for (name, reasons) in [
            ("limiter_drops_total", Drops::reasons().collect::<Vec<_>>()),
            ("limiter_passes_total", Passes::reasons().collect()),
        ] {
            let metric = METRICS.iter().find(|metric| metric.name == name).unwrap();
            let help = metric.help();
            // Without what is in parentheses.
            let outside = help.split('(').map(|part| part.rsplit(')').next().unwrap());
            let outside: String = outside.collect();
            let (_, named) = outside.split_once(": ").unwrap();
            let named: Vec<_> = named
                .split(',')
                .map(|name| name.trim_matches([' ', '.']))
                .collect();
            let expected: Vec<_> = reasons.iter().map(|reason| reason.name()).collect();
            assert_eq!(named, expected);
        }
    }

    #[test]
    fn both_formats_have_the_same_samples() {
        let reading = reading();
        let text = Format::Text.write(&reading, &[]);
        let open = Format::OpenMetrics.write(&reading, &[]);
        assert!(open.ends_with("\n# EOF\n"), "{open}");
        for line in [
            "# TYPE limiter_drops counter",
            "# TYPE limiter_attached info",
            "# TYPE limiter_delay_seconds histogram",
            "# UNIT limiter_delay_seconds seconds",
            "# UNIT limiter_interface_bytes bytes",
            "# UNIT limiter_rate_ratio ratio",
        ] {
            assert!(open.lines().any(|found| found == line), "{line}: {open}");
        }
        // Buckets have their labels in another order.
        let others = |exposition| {
            let lines = lines(exposition).into_iter();
            lines
                .filter(|line| !line.contains("_bucket"))
                .collect::<Vec<_>>()
        };
        assert_eq!(others(&text), others(&open));
        assert_eq!(lines(&text).len(), lines(&open).len());
    }

    #[test]
    fn labels_of_the_user_are_added_and_the_exporters_own_are_listed() {
        let reading = reading();
        let own: BTreeSet<_> = METRICS
            .iter()
            .flat_map(|metric| samples(metric, &reading))
            .flat_map(|sample| sample.labels)
            .map(|(name, _)| name)
            .chain(["le"])
            .collect();
        assert_eq!(own, BTreeSet::from(LABELS));
        let label = ("site".to_owned(), "a\"\\\nb".to_owned());
        for format in [Format::Text, Format::OpenMetrics] {
            let text = format.write(&reading, std::slice::from_ref(&label));
            for line in lines(&text) {
                assert!(line.contains("{site=\"a\\\"\\\\\\nb\""), "{line}");
            }
        }
    }

    const DASHBOARD: &str = include_str!("../../../packaging/grafana/limiter.json");

    /// The words of a query that `is_part` accepts.
    fn words(query: &str, is_part: fn(char) -> bool) -> impl Iterator<Item = &str> {
        query.split(move |letter| !is_part(letter))
    }

    #[test]
    fn dashboard_asks_for_metrics_that_exist_and_has_a_panel_for_each_subject() {
        let dashboard: serde_json::Value = serde_json::from_str(DASHBOARD).unwrap();
        let panels = dashboard["panels"].as_array().unwrap();
        let queries: Vec<&str> = panels
            .iter()
            .flat_map(|panel| panel["targets"].as_array().unwrap())
            .map(|target| target["expr"].as_str().unwrap())
            .collect();
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let asked: BTreeSet<&str> = queries
            .iter()
            .flat_map(|query| words(query, is_part))
            .filter(|word| word.starts_with("limiter_"))
            .collect();
        let text = Format::Text.write(&reading(), &[]);
        let exist: BTreeSet<&str> = lines(&text)
            .into_iter()
            .map(|line| line.split('{').next().unwrap())
            .collect();
        let unknown: Vec<_> = asked.difference(&exist).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
        for start in [
            "limiter_bans",
            "limiter_came_again",
            "limiter_delay_seconds",
            "limiter_feed_",
            "limiter_fleet_",
            "limiter_held_sources",
            "limiter_proven",
            "limiter_second_chances",
        ] {
            let of_subject = exist.iter().filter(|name| name.starts_with(start));
            let missing: Vec<_> = of_subject.filter(|name| !asked.contains(**name)).collect();
            assert!(missing.is_empty(), "{missing:?}");
        }
        // Panels have numbers and places of their own.
        for key in ["id", "gridPos", "title"] {
            let all: BTreeSet<_> = panels.iter().map(|panel| panel[key].to_string()).collect();
            assert_eq!(all.len(), panels.len(), "{key}");
        }
        let reasons = panels
            .iter()
            .find(|panel| panel["title"] == "Drops by reason");
        let described = reasons.unwrap()["description"].as_str().unwrap();
        for reason in Drops::reasons() {
            let name = format!("{}: ", reason.name());
            assert!(described.contains(&name), "{name}{described}");
        }
    }

    /// The headers are those that the clients send.
    #[test]
    fn format_is_the_one_that_the_client_prefers() {
        for accept in [
            // Prometheus 2, 3, and 3 with start times.
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
            "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
            "application/openmetrics-text",
            "Application/OpenMetrics-Text; version=\"1.0.0\" ; Q=0.5, text/plain;q=0.50",
        ] {
            assert_eq!(Format::accepted(accept), Format::OpenMetrics, "{accept}");
        }
        for accept in [
            "",
            "*/*",
            "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
            // Netdata and Telegraf.
            "text/plain;version=0.0.4;q=1,*/*;q=0.1",
            "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.7,text/plain;version=0.0.4;q=0.3,*/*;q=0.1",
            "text/plain",
            "application/openmetrics-text;version=0.0.1",
            "application/openmetrics-text;version=2.0.0",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text;q=x",
            "application/openmetrics-text;q=0.4,text/*;q=0.5",
            "application/openmetrics-text;q=0.4,TEXT/plain;version=1.0.0;q=0.5",
            "application/*",
            "\u{0},;;=\"",
        ] {
            assert_eq!(Format::accepted(accept), Format::Text, "{accept}");
        }
    }
}

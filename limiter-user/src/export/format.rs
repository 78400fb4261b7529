//! The two text formats of metrics: OpenMetrics, and the older format 0.0.4 of Prometheus, which every scraper
//! understands.

/// Units at the end of a metric's name.
const UNITS: [&str; 3] = ["seconds", "bytes", "packets"];

/// A text format for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The Prometheus text format 0.0.4.
    Prometheus,
}

impl Format {
    /// Selects the format by the `Accept` headers of a request: OpenMetrics if they name it and do not prefer plain
    /// text (RFC 9110, 12.5.1).
    pub fn accepted<'h>(headers: impl Iterator<Item = &'h str>) -> Self {
        let (mut openmetrics, mut plain) = (0.0_f64, 0.0_f64);
        for range in headers.flat_map(|header| header.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default();
            let weight = parts.find_map(|part| part.strip_prefix("q="));
            let weight = weight.map_or(1.0, |weight| weight.parse().unwrap_or(0.0));
            if kind.eq_ignore_ascii_case("application/openmetrics-text") {
                openmetrics = openmetrics.max(weight);
            } else if kind.eq_ignore_ascii_case("text/plain") {
                plain = plain.max(weight);
            }
        }
        if openmetrics > 0.0 && openmetrics >= plain {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }

    /// The content type.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// The labels of a sample, and its value.
pub type Sample = (Vec<(&'static str, String)>, String);

/// Appends a metric to a text. `metric`: kind, name and description. A counter only grows, and starts at 0 with a new
/// attachment; an info is always 1, with its content in the labels. Without samples, the description is left out too.
pub fn write(text: &mut String, format: Format, metric: &str, samples: &[Sample]) {
    let mut parts = metric.splitn(3, ' ');
    let mut part = || parts.next().unwrap_or_default();
    let (kind, name, help) = (part(), part(), part());
    if samples.is_empty() {
        return;
    }
    let suffix = match kind {
        "counter" => "_total",
        "info" => "_info",
        _ => "",
    };
    // The older format describes samples by their whole name, and knows neither infos nor units.
    let (described, kind) = match (format, kind) {
        (Format::OpenMetrics, kind) => ("", kind),
        (Format::Prometheus, "info") => (suffix, "gauge"),
        (Format::Prometheus, kind) => (suffix, kind),
    };
    text.push_str(&format!(
        "# HELP {name}{described} {help}\n# TYPE {name}{described} {kind}\n"
    ));
    let unit = name.rsplit('_').next().filter(|unit| UNITS.contains(unit));
    if let (Format::OpenMetrics, Some(unit)) = (format, unit) {
        text.push_str(&format!("# UNIT {name} {unit}\n"));
    }
    for (labels, value) in samples {
        text.push_str(&format!("{name}{suffix}{} {value}\n", in_braces(labels)));
    }
}

/// Formats labels with their braces; without labels, there are none.
fn in_braces(labels: &[(&str, String)]) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let labels = labels.iter().map(|(name, value)| {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"");
        format!("{name}=\"{}\"", value.replace('\n', "\\n"))
    });
    format!("{{{}}}", labels.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openmetrics_is_chosen_only_if_the_client_prefers_it() {
        let is_open = |header: &str| Format::accepted([header].into_iter()) == Format::OpenMetrics;
        // The header of Prometheus 2.42.
        assert!(is_open(
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
             text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
        ));
        assert!(is_open("Application/OpenMetrics-Text"));
        for other in [
            // The headers of a browser and of curl.
            "text/html,application/xhtml+xml,*/*;q=0.8",
            "*/*",
            "",
            "application/openmetrics-text;q=0.3, text/plain;q=0.9",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text;q=nonsense",
        ] {
            assert!(!is_open(other), "{other}");
        }
        assert_eq!(Format::accepted(std::iter::empty()), Format::Prometheus);
    }

    #[test]
    fn each_metrics_format_writes_its_own_names_and_headers() {
        let metrics = [
            ("counter a_bytes Bytes.", vec![("x", "a\\b\"\n")], "3"),
            ("info b Text.", vec![("v", "1"), ("w", "1")], "1"),
            ("gauge c Number.", Vec::new(), "0.5"),
        ];
        let text = |format| {
            let mut text = String::new();
            for (metric, labels, value) in &metrics {
                let labels = labels
                    .iter()
                    .map(|(name, value)| (*name, (*value).to_owned()));
                let samples = [(labels.collect(), (*value).to_owned())];
                write(&mut text, format, metric, &samples);
            }
            write(&mut text, format, "gauge d Nothing.", &[]);
            text
        };
        assert_eq!(
            text(Format::OpenMetrics),
            "# HELP a_bytes Bytes.\n# TYPE a_bytes counter\n# UNIT a_bytes bytes\n\
             a_bytes_total{x=\"a\\\\b\\\"\\n\"} 3\n# HELP b Text.\n# TYPE b info\nb_info{v=\"1\",w=\"1\"} 1\n\
             # HELP c Number.\n# TYPE c gauge\nc 0.5\n"
        );
        assert_eq!(
            text(Format::Prometheus),
            "# HELP a_bytes_total Bytes.\n# TYPE a_bytes_total counter\n\
             a_bytes_total{x=\"a\\\\b\\\"\\n\"} 3\n# HELP b_info Text.\n# TYPE b_info gauge\nb_info{v=\"1\",w=\"1\"} 1\n\
             # HELP c Number.\n# TYPE c gauge\nc 0.5\n"
        );
    }
}

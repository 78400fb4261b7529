//! Two formats for metrics: OpenMetrics, and the older text format 0.0.4 of Prometheus, which every scraper
//! understands.

/// Content type of OpenMetrics.
pub const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Content type of the Prometheus format.
pub const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Whether a request with these `Accept` headers gets OpenMetrics: it must name OpenMetrics, and not prefer plain text
/// (RFC 9110, 12.5.1).
pub fn wants_openmetrics<'h>(accepted: impl Iterator<Item = &'h str>) -> bool {
    let (mut openmetrics, mut plain) = (0.0_f64, 0.0_f64);
    for range in accepted.flat_map(|header| header.split(',')) {
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
    openmetrics > 0.0 && openmetrics >= plain
}

/// Converts OpenMetrics to the Prometheus format. Samples are the same. Descriptions use the name of the samples,
/// there are no units, and an info is a gauge.
pub fn prometheus(openmetrics: &str) -> String {
    let mut text = String::with_capacity(openmetrics.len());
    let mut lines = openmetrics.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("# UNIT ") || line == "# EOF" {
            continue;
        }
        let Some(help) = line.strip_prefix("# HELP ") else {
            text.push_str(line);
            text.push('\n');
            continue;
        };
        let kind = lines
            .next_if(|next| next.starts_with("# TYPE "))
            .and_then(|next| next.rsplit(' ').next())
            .unwrap_or("untyped");
        let (suffix, kind) = match kind {
            "counter" => ("_total", "counter"),
            "info" => ("_info", "gauge"),
            other => ("", other),
        };
        let (name, help) = help.split_once(' ').unwrap_or((help, ""));
        text.push_str(&format!(
            "# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {kind}\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openmetrics_where_it_is_asked_for() {
        let wants = |header: &str| wants_openmetrics([header].into_iter());
        // The header of Prometheus 2.42.
        assert!(wants(
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
             text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
        ));
        assert!(wants("Application/OpenMetrics-Text"));
        // The headers of a browser and curl, and no header.
        assert!(!wants("text/html,application/xhtml+xml,*/*;q=0.8"));
        assert!(!wants("*/*"));
        assert!(!wants(""));
        assert!(!wants_openmetrics(std::iter::empty()));
        assert!(!wants(
            "application/openmetrics-text;q=0.3, text/plain;q=0.9"
        ));
        assert!(!wants("application/openmetrics-text;q=0"));
        assert!(!wants("application/openmetrics-text;q=nonsense"));
    }

    #[test]
    fn the_older_format_names_what_it_describes() {
        let openmetrics = "# HELP a_bytes Bytes.\n# TYPE a_bytes counter\n# UNIT a_bytes bytes\n\
                           a_bytes_total{x=\"# HELP\"} 3\n# HELP b What.\n# TYPE b info\nb_info{v=\"1\"} 1\n\
                           # HELP c How many.\n# TYPE c gauge\nc 2\n# EOF\n";
        assert_eq!(
            prometheus(openmetrics),
            "# HELP a_bytes_total Bytes.\n# TYPE a_bytes_total counter\na_bytes_total{x=\"# HELP\"} 3\n\
             # HELP b_info What.\n# TYPE b_info gauge\nb_info{v=\"1\"} 1\n\
             # HELP c How many.\n# TYPE c gauge\nc 2\n"
        );
    }
}

//! A label that the exporter's user adds to each sample.

use super::metrics::LABELS;

/// Reads `NAME=VALUE`.
///
/// Fails if Prometheus does not allow the name, or a metric has a label of this name.
pub fn label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write a label as NAME=VALUE")?;
    let is_word = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !is_word || name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) {
        return Err(format!(
            "{name:?} is not the name of a label: use letters, digits and _, and begin with a letter"
        ));
    }
    if name.starts_with("__") {
        return Err(format!(
            "{name:?}: Prometheus keeps names with __ for itself"
        ));
    }
    if LABELS.contains(&name) {
        return Err(format!(
            "the metrics have a label {name:?}: choose another name"
        ));
    }
    if value.is_empty() {
        return Err("a label without a value is no label: write NAME=VALUE".to_owned());
    }
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_checkers_accept_are_labels() {
        for (text, name, value) in [
            ("site=fra 1=x", "site", "fra 1=x"),
            ("_s1te=\u{e9}\"", "_s1te", "\u{e9}\""),
        ] {
            assert_eq!(label(text), Ok((name.to_owned(), value.to_owned())));
        }
        for (text, why) in [
            ("site", "NAME=VALUE"),
            ("=x", "not the name"),
            ("1site=x", "not the name"),
            ("a-b=x", "not the name"),
            ("\u{e9}=x", "not the name"),
            ("__name__=x", "Prometheus"),
            ("interface=eth0", "have a label"),
            ("le=1", "have a label"),
            ("site=", "without a value"),
        ] {
            let error = label(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}

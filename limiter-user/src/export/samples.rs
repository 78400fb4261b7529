//! Samples: the values of a metric, with their labels.

/// A value with its labels.
#[derive(Debug)]
pub struct Sample {
    /// The end of the sample's name: a histogram has three kinds of samples.
    pub ending: &'static str,
    /// The labels.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: String,
}

impl Sample {
    /// The labels with their braces; without labels, there are none.
    pub fn in_braces(&self) -> String {
        if self.labels.is_empty() {
            return String::new();
        }
        let labels = self.labels.iter().map(|(name, value)| {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"");
            format!("{name}=\"{}\"", value.replace('\n', "\\n"))
        });
        format!("{{{}}}", labels.collect::<Vec<_>>().join(","))
    }

    /// The sample with another ending of its name.
    pub fn with_ending(self, ending: &'static str) -> Self {
        Self { ending, ..self }
    }
}

/// A sample with these labels.
pub fn sample(labels: &[(&'static str, &str)], value: impl ToString) -> Sample {
    let labels = labels.iter();
    let labels = labels.map(|(label, value)| (*label, (*value).to_owned()));
    Sample {
        ending: "",
        labels: labels.collect(),
        value: value.to_string(),
    }
}

/// A single sample without labels.
pub fn single(value: impl ToString) -> Vec<Sample> {
    vec![sample(&[], value)]
}

/// A single sample without labels, if there is a value.
pub fn optional(value: Option<impl ToString>) -> Vec<Sample> {
    value.map_or_else(Vec::new, single)
}

/// A sample for each of `all` that has one, with a label.
pub fn labelled<T, N: AsRef<str>, V: ToString>(
    label: &'static str,
    all: impl IntoIterator<Item = T>,
    named: impl Fn(T) -> Option<(N, V)>,
) -> Vec<Sample> {
    let samples = all.into_iter().filter_map(named);
    samples
        .map(|(name, value)| sample(&[(label, name.as_ref())], value))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_values_are_escaped() {
        let sample = sample(&[("x", "a\\b\"\n"), ("y", "1")], 1);
        assert_eq!(sample.in_braces(), "{x=\"a\\\\b\\\"\\n\",y=\"1\"}");
    }
}

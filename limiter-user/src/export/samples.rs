//! Samples: the values of a metric, with their labels.

use std::fmt;

use prometheus_client::{
    encoding::{MetricEncoder, NoLabelSet},
    metrics::MetricType,
};

const NO_LABELS: [(&str, &str); 0] = [];

/// A value with its labels.
#[derive(Debug)]
pub struct Sample {
    /// The labels.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: Value,
}

/// The value of a sample.
#[derive(Debug)]
pub enum Value {
    /// A whole number.
    Whole(u64),
    /// Another number.
    Float(f64),
    /// Counts between bounds.
    Histogram {
        /// The upper bound of each bucket, and what is between the bound before and this one. The last bound is
        /// infinite.
        buckets: Vec<(f64, u64)>,
        /// Sum of all that is counted.
        sum: f64,
        /// Number of all that is counted.
        count: u64,
    },
}

impl Sample {
    /// Writes the sample of a metric of this kind.
    pub fn encode(&self, encoder: &mut MetricEncoder<'_>, kind: MetricType) -> fmt::Result {
        let mut encoder = encoder.encode_family(&self.labels)?;
        match &self.value {
            Value::Histogram {
                buckets,
                sum,
                count,
            } => encoder.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None),
            Value::Float(value) => encoder.encode_gauge(value),
            Value::Whole(value) => match kind {
                MetricType::Counter => encoder.encode_counter::<NoLabelSet, _, u64>(value, None),
                MetricType::Info => encoder.encode_info(&NO_LABELS),
                _ => encoder.encode_gauge(value),
            },
        }
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<u32> for Value {
    fn from(value: u32) -> Self {
        Self::Whole(value.into())
    }
}

impl From<usize> for Value {
    fn from(value: usize) -> Self {
        Self::Whole(value as u64)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Whole(value.into())
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

/// A sample with these labels.
pub fn sample(labels: &[(&'static str, &str)], value: impl Into<Value>) -> Sample {
    let labels = labels.iter();
    let labels = labels.map(|(label, value)| (*label, (*value).to_owned()));
    Sample {
        labels: labels.collect(),
        value: value.into(),
    }
}

/// A single sample without labels.
pub fn single(value: impl Into<Value>) -> Vec<Sample> {
    vec![sample(&[], value)]
}

/// A single sample without labels, if there is a value.
pub fn optional(value: Option<impl Into<Value>>) -> Vec<Sample> {
    value.map_or_else(Vec::new, single)
}

/// A sample for each of `all` that has one, with a label.
pub fn labelled<T, N: AsRef<str>, V: Into<Value>>(
    label: &'static str,
    all: impl IntoIterator<Item = T>,
    named: impl Fn(T) -> Option<(N, V)>,
) -> Vec<Sample> {
    let samples = all.into_iter().filter_map(named);
    samples
        .map(|(name, value)| sample(&[(label, name.as_ref())], value))
        .collect()
}

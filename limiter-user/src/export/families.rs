//! Metrics and their samples, handed to the library that writes them.

use std::fmt;

use prometheus_client::{
    encoding::{DescriptorEncoder, NoLabelSet},
    metrics::MetricType,
    registry::Unit,
};

/// Units, which stand at the end of a metric's name.
const UNITS: [&str; 3] = ["seconds", "bytes", "packets"];

/// Labels of a sample: name, value.
pub type Labels = Vec<(&'static str, String)>;

/// The value of a sample.
#[derive(Clone, Copy, Debug)]
pub enum Value {
    /// A number of things.
    Whole(u64),
    /// A measurement.
    Real(f64),
}

/// Samples of a metric.
pub type Samples = Vec<(Labels, Value)>;

/// A metric, and how its samples are made of something.
#[derive(Debug)]
pub struct Metric<T> {
    kind: MetricType,
    name: &'static str,
    help: &'static str,
    /// Makes its samples.
    pub samples: fn(&T) -> Samples,
}

impl<T> Metric<T> {
    const fn new(
        kind: MetricType,
        name: &'static str,
        help: &'static str,
        samples: fn(&T) -> Samples,
    ) -> Self {
        Self {
            kind,
            name,
            help,
            samples,
        }
    }

    /// What only grows, but for a new attachment, which begins at 0: `_total` is added to the name.
    pub const fn counter(
        name: &'static str,
        help: &'static str,
        samples: fn(&T) -> Samples,
    ) -> Self {
        Self::new(MetricType::Counter, name, help, samples)
    }

    /// What is so at this moment.
    pub const fn gauge(name: &'static str, help: &'static str, samples: fn(&T) -> Samples) -> Self {
        Self::new(MetricType::Gauge, name, help, samples)
    }

    /// What is said in labels alone: `_info` is added to the name.
    pub const fn info(name: &'static str, help: &'static str, samples: fn(&T) -> Samples) -> Self {
        Self::new(MetricType::Info, name, help, samples)
    }

    /// Writes samples of the metric. Without any, the description is left out too.
    pub fn write(&self, encoder: &mut DescriptorEncoder<'_>, samples: &Samples) -> fmt::Result {
        if samples.is_empty() {
            return Ok(());
        }
        // The library adds the unit to the name.
        let (name, unit) = match self.name.rsplit_once('_') {
            Some((name, unit)) if UNITS.contains(&unit) => (name, Some(unit)),
            _ => (self.name, None),
        };
        let unit = unit.map(|unit| Unit::Other(unit.to_owned()));
        let mut metric = encoder.encode_descriptor(name, self.help, unit.as_ref(), self.kind)?;
        for (labels, value) in samples {
            // A gauge is signed.
            let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
            match (self.kind, *value) {
                (MetricType::Info, _) => metric.encode_info(labels)?,
                (MetricType::Counter, Value::Whole(value)) => {
                    metric
                        .encode_family(labels)?
                        .encode_counter::<NoLabelSet, u64, u64>(&value, None)?
                }
                // Without braces.
                (_, Value::Whole(value)) if labels.is_empty() => {
                    metric.encode_gauge(&signed(value))?;
                }
                (_, Value::Real(value)) if labels.is_empty() => metric.encode_gauge(&value)?,
                (_, Value::Whole(value)) => {
                    metric.encode_family(labels)?.encode_gauge(&signed(value))?;
                }
                (_, Value::Real(value)) => metric.encode_family(labels)?.encode_gauge(&value)?,
            }
        }
        Ok(())
    }
}

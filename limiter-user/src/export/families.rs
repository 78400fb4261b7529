//! Passes metrics and their samples to the library that writes them.

use std::fmt;

use prometheus_client::{
    encoding::{DescriptorEncoder, NoLabelSet},
    metrics::MetricType,
    registry::Unit,
};

/// Units at the end of a metric's name.
const UNITS: [&str; 3] = ["seconds", "bytes", "packets"];

/// Labels of a sample: name and value.
pub type Labels = Vec<(&'static str, String)>;

/// The value of a sample.
#[derive(Clone, Copy, Debug)]
pub enum Value {
    /// An integer.
    Whole(u64),
    /// A measurement.
    Real(f64),
}

/// The samples of a metric.
pub type Samples = Vec<(Labels, Value)>;

/// A metric, and the function that makes its samples.
#[derive(Debug)]
pub struct Metric<T> {
    kind: MetricType,
    name: &'static str,
    help: &'static str,
    /// Makes the samples of the metric.
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

    /// Creates a counter. It only grows, and starts at 0 with a new attachment. `_total` is added to the name.
    pub const fn counter(
        name: &'static str,
        help: &'static str,
        samples: fn(&T) -> Samples,
    ) -> Self {
        Self::new(MetricType::Counter, name, help, samples)
    }

    /// Creates a gauge, the present value of something.
    pub const fn gauge(name: &'static str, help: &'static str, samples: fn(&T) -> Samples) -> Self {
        Self::new(MetricType::Gauge, name, help, samples)
    }

    /// Creates an info, whose content is in its labels. `_info` is added to the name.
    pub const fn info(name: &'static str, help: &'static str, samples: fn(&T) -> Samples) -> Self {
        Self::new(MetricType::Info, name, help, samples)
    }

    /// Writes the samples of the metric. Without samples, the description is left out too.
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
            // The library's gauges are signed.
            let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
            match (self.kind, *value) {
                (MetricType::Info, _) => metric.encode_info(labels)?,
                (MetricType::Counter, Value::Whole(value)) => {
                    metric
                        .encode_family(labels)?
                        .encode_counter::<NoLabelSet, u64, u64>(&value, None)?
                }
                // Without labels, there are no braces.
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

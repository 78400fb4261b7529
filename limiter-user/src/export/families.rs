//! Metrics with their samples, handed to the library that writes them.

use std::fmt;

use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeGaugeValue, MetricEncoder, NoLabelSet},
    metrics::MetricType,
    registry::Unit,
};

/// Labels of a sample: name, value.
pub type Labels = Vec<(&'static str, String)>;

/// What is said of a metric. To its name is added what its type demands.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Its name, whose last word is the unit, where there is one.
    pub name: &'static str,
    /// What it counts or measures in.
    pub unit: Option<&'static str>,
    /// A sentence.
    pub help: &'static str,
}

/// Writes metrics.
#[derive(Debug)]
pub struct Writer<'e>(pub DescriptorEncoder<'e>);

impl Writer<'_> {
    /// What only grows, but for a new attachment, which begins at 0: `_total` is added to the name.
    pub fn counters(
        &mut self,
        about: About,
        samples: impl IntoIterator<Item = (Labels, u64)>,
    ) -> fmt::Result {
        self.family(
            about,
            MetricType::Counter,
            samples,
            |metric, labels, value| {
                let mut sample = metric.encode_family(labels)?;
                sample.encode_counter::<NoLabelSet, u64, u64>(&value, None)
            },
        )
    }

    /// What is so at this moment.
    pub fn gauges<V: EncodeGaugeValue>(
        &mut self,
        about: About,
        samples: impl IntoIterator<Item = (Labels, V)>,
    ) -> fmt::Result {
        self.family(
            about,
            MetricType::Gauge,
            samples,
            |metric, labels, value| {
                if labels.is_empty() {
                    // Without braces.
                    return metric.encode_gauge(&value);
                }
                metric.encode_family(labels)?.encode_gauge(&value)
            },
        )
    }

    /// What is said in labels alone: `_info` is added to the name.
    pub fn infos(
        &mut self,
        about: About,
        samples: impl IntoIterator<Item = Labels>,
    ) -> fmt::Result {
        let samples = samples.into_iter().map(|labels| (labels, ()));
        self.family(about, MetricType::Info, samples, |metric, labels, ()| {
            metric.encode_info(labels)
        })
    }

    /// Metrics without samples are left out, descriptions too.
    fn family<V>(
        &mut self,
        about: About,
        kind: MetricType,
        samples: impl IntoIterator<Item = (Labels, V)>,
        write: impl Fn(&mut MetricEncoder<'_>, &Labels, V) -> fmt::Result,
    ) -> fmt::Result {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return Ok(());
        }
        let unit = about.unit.map(|unit| Unit::Other(unit.to_owned()));
        // The library adds the unit.
        let name = about.unit.and_then(|unit| about.name.strip_suffix(unit));
        let name = name.map_or(about.name, |name| name.trim_end_matches('_'));
        let mut metric = self
            .0
            .encode_descriptor(name, about.help, unit.as_ref(), kind)?;
        samples.try_for_each(|(labels, value)| write(&mut metric, &labels, value))
    }
}

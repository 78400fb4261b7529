//! Packets by reason: in JSON an object with a count for each reason of the table in `limiter_common::policy::verdict`.

use std::collections::BTreeMap;

use limiter_common::{
    abi::counters::Counters,
    policy::verdict::{Reason, Verdict},
};
use serde::{Deserialize, Serialize};

use super::Count;

/// Dropped packets by reason. Their sum is `dropped`.
pub type Drops = ByReason<true>;
/// Packets that passed without being charged, by reason.
pub type Passes = ByReason<false>;

/// Packets that were dropped (`DROPS`), or that passed without being charged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ByReason<const DROPS: bool>(BTreeMap<String, Count>);

impl<const DROPS: bool> ByReason<DROPS> {
    /// Reads the counters of the program.
    pub fn new(counters: &Counters) -> Self {
        let counts = Self::reasons().map(|reason| {
            let count = counters.by_reason[reason as usize].into();
            (reason.name().to_owned(), count)
        });
        Self(counts.collect())
    }

    /// The packets of one reason.
    pub fn of(&self, reason: Reason) -> Count {
        self.0.get(reason.name()).copied().unwrap_or_default()
    }

    /// All reasons with their packets, in the table's order.
    pub fn iter(&self) -> impl Iterator<Item = (Reason, Count)> {
        Self::reasons().map(|reason| (reason, self.of(reason)))
    }

    /// All reasons, in the table's order.
    pub fn reasons() -> impl Iterator<Item = Reason> {
        let is_of = |reason: &Reason| match reason.verdict() {
            Verdict::Refuse | Verdict::Drop => DROPS,
            Verdict::Pass => !DROPS,
            Verdict::Admit | Verdict::Shadow => false,
        };
        Reason::ALL.into_iter().filter(is_of)
    }
}

#[cfg(test)]
impl<const DROPS: bool> schemars::JsonSchema for ByReason<DROPS> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        if DROPS { "Drops" } else { "Passes" }.into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let mut count = generator.subschema_for::<Count>();
        let properties: BTreeMap<_, _> = Self::reasons()
            .map(|reason| {
                count.insert("description".to_owned(), reason.text().into());
                (reason.name(), count.clone())
            })
            .collect();
        let names: Vec<_> = properties.keys().copied().collect();
        let description = if DROPS {
            "Dropped packets by reason. Their sum is `dropped`."
        } else {
            "Packets that passed without being charged, by reason."
        };
        schemars::json_schema!({
            "description": description,
            "type": "object",
            "properties": properties,
            "required": names,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_all_reasons_of_its_kind_and_reads_back() {
        let mut counters = Counters::default();
        counters.by_reason[Reason::NewSource as usize].packets = 3;
        let drops = Drops::new(&counters);
        let json = serde_json::to_value(&drops).unwrap();
        assert_eq!(json["new_source"]["packets"], 3);
        let names: Vec<_> = json.as_object().unwrap().keys().collect();
        assert_eq!(
            names,
            [
                "answered",
                "ban",
                "connections",
                "contended",
                "deny",
                "limit",
                "malformed",
                "new_source"
            ]
        );
        assert_eq!(serde_json::from_value::<Drops>(json).unwrap(), drops);
    }
}

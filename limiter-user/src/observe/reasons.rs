//! Packets by reason: in JSON an object with a count for each reason of the table in `limiter_common::policy::verdict`.

use std::collections::BTreeMap;

use limiter_common::{
    abi::counters::Counters,
    policy::verdict::{Reason, Verdict},
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Count;

/// Dropped packets by reason. Their sum is `dropped`.
pub type Drops = ByReason<true>;
/// Packets that passed without being charged, by reason.
pub type Passes = ByReason<false>;

/// Packets that were dropped (`DROPS`), or that passed without being charged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByReason<const DROPS: bool>([Count; Reason::ALL.len()]);

impl<const DROPS: bool> ByReason<DROPS> {
    /// Reads the counters of the program.
    pub fn new(counters: &Counters) -> Self {
        let mut counts = Self::default();
        for reason in reasons::<DROPS>() {
            counts.set(reason, counters.by_reason[reason as usize].into());
        }
        counts
    }

    /// The packets of one reason.
    pub fn of(&self, reason: Reason) -> Count {
        self.0[reason as usize]
    }

    /// Sets the packets of one reason.
    pub fn set(&mut self, reason: Reason, count: Count) {
        self.0[reason as usize] = count;
    }

    /// All reasons with their packets, in the table's order.
    pub fn iter(&self) -> impl Iterator<Item = (Reason, Count)> {
        reasons::<DROPS>().map(|reason| (reason, self.of(reason)))
    }
}

fn reasons<const DROPS: bool>() -> impl Iterator<Item = Reason> {
    let is_of = |reason: &Reason| match reason.verdict() {
        Verdict::Refuse | Verdict::Drop => DROPS,
        Verdict::Pass => !DROPS,
        Verdict::Admit | Verdict::Shadow => false,
    };
    Reason::ALL.into_iter().filter(is_of)
}

impl<const DROPS: bool> Serialize for ByReason<DROPS> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(reason, count)| (reason.name(), count)))
    }
}

impl<'de, const DROPS: bool> Deserialize<'de> for ByReason<DROPS> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let named = BTreeMap::<String, Count>::deserialize(deserializer)?;
        let mut counts = Self::default();
        for (name, count) in named {
            let reason = Reason::from_name(&name);
            let unknown = || serde::de::Error::custom(format!("unknown reason '{name}'"));
            counts.set(reason.ok_or_else(unknown)?, count);
        }
        Ok(counts)
    }
}

#[cfg(test)]
impl<const DROPS: bool> schemars::JsonSchema for ByReason<DROPS> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        if DROPS { "Drops" } else { "Passes" }.into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let mut count = generator.subschema_for::<Count>();
        let properties: BTreeMap<_, _> = reasons::<DROPS>()
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
        let mut drops = Drops::default();
        let count = Count {
            packets: 3,
            bytes: 180,
        };
        drops.set(Reason::NewSource, count);
        let json = serde_json::to_value(drops).unwrap();
        assert_eq!(json["new_source"]["packets"], 3);
        let names: Vec<_> = json.as_object().unwrap().keys().collect();
        assert_eq!(
            names,
            [
                "answered",
                "ban",
                "contended",
                "deny",
                "limit",
                "malformed",
                "new_source"
            ]
        );
        assert_eq!(serde_json::from_value::<Drops>(json).unwrap(), drops);
        assert!(serde_json::from_str::<Passes>(r#"{"limits":{"packets":1,"bytes":1}}"#).is_err());
    }
}

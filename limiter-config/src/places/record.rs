//! Records of databases: the country and the autonomous system, in the shapes that publishers give them.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};

/// Paths of a country, the best one first. The empty path is a record that is the code itself.
const COUNTRY: [&[&str]; 7] = [
    // MaxMind, DB-IP, IP2Location.
    &["country", "iso_code"],
    // IPinfo Lite, where `country` is a name; ip-location-db.
    &["country_code"],
    // Earlier databases of IPinfo.
    &["country"],
    &["country", "code"],
    &["geo", "country_code"],
    // Networks whose users may be anywhere, such as those of satellites.
    &["registered_country", "iso_code"],
    &[],
];

/// Paths of the number of an autonomous system.
const SYSTEM: [&[&str]; 6] = [
    // MaxMind, DB-IP, ip-location-db.
    &["autonomous_system_number"],
    // GeoIP2 Enterprise, DB-IP's ISP databases.
    &["traits", "autonomous_system_number"],
    // IPinfo: "AS64500".
    &["asn"],
    &["as", "asn"],
    &["as_number"],
    // Geo Open.
    &["country", "AutonomousSystemNumber"],
];

/// A value of a record, without the fields that are on no path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Text(String),
    Number(u32),
    Map(Vec<(&'static str, Value)>),
    /// A value of another type.
    Other,
}

impl Value {
    /// The code of the country, as in CN.
    pub fn country(&self) -> Option<String> {
        let code = |value: &Self| match value {
            Self::Text(text) if is_code(text) => Some(text.to_ascii_uppercase()),
            _ => None,
        };
        COUNTRY.iter().find_map(|path| code(self.follow(path)?))
    }

    /// The number of the autonomous system.
    pub fn system(&self) -> Option<u32> {
        let number = |value: &Self| match value {
            Self::Number(number) => Some(*number),
            // The name of the system may follow.
            Self::Text(text) => system(text.split(' ').next().unwrap_or_default()),
            _ => None,
        };
        SYSTEM.iter().find_map(|path| number(self.follow(path)?))
    }

    fn follow(&self, path: &[&str]) -> Option<&Self> {
        let Some((first, rest)) = path.split_first() else {
            return Some(self);
        };
        let Self::Map(fields) = self else { return None };
        let (_, value) = fields.iter().find(|(key, _)| key == first)?;
        value.follow(rest)
    }
}

/// Returns true for two letters.
pub fn is_code(text: &str) -> bool {
    text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// The number of an autonomous system, as in 64500 or AS64500.
pub fn system(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("AS").or_else(|| text.strip_prefix("as"));
    let digits = digits.unwrap_or(text);
    let are_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| are_digits)
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

/// Reads values of every type: no shape of a record is an error.
struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(u32::try_from(number).map_or(Value::Other, Value::Number))
    }

    fn visit_u128<E>(self, number: u128) -> Result<Value, E> {
        Ok(u32::try_from(number).map_or(Value::Other, Value::Number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(u32::try_from(number).map_or(Value::Other, Value::Number))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Value, E> {
        Ok(Value::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Value, E> {
        Ok(Value::Other)
    }

    fn visit_bytes<E>(self, _: &[u8]) -> Result<Value, E> {
        Ok(Value::Other)
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut values: A) -> Result<Value, A::Error> {
        while values.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Value::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Vec::new();
        while let Some(key) = map.next_key::<&str>()? {
            let mut known = COUNTRY.iter().chain(&SYSTEM).copied().flatten();
            match known.find(|known| **known == key) {
                Some(known) => fields.push((*known, map.next_value()?)),
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(Value::Map(fields))
    }
}

//! `nat64`: the translators that the operator names, whose prefixes stand in front of IPv4 addresses (RFC 6052).

use ipnet::Ipv6Net;
use limiter_common::table::{
    key::leading_ones,
    nat64::{Nat64, PREFIXES_MAX, Prefix},
};
use serde::{Deserialize, Serialize};

use super::{Invalid, Settings, Text, as_text, ensure, invalid, key, lists, nat64::well_known};

/// Lengths of prefixes that a translator can have (RFC 6052, section 2.2).
const LENGTHS: [u8; 6] = [32, 40, 48, 56, 64, 96];
/// The most prefixes that the operator names.
const NAMED_MAX: usize = PREFIXES_MAX - 1;

/// The prefix of a translator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Translator(pub Ipv6Net);

impl Text for Translator {
    fn read(text: &str) -> Result<Self, Invalid> {
        let prefix = lists::prefix(text)?;
        let ipnet::IpNet::V6(prefix) = prefix else {
            return Err(invalid!(
                "'{text}' is a prefix of IPv4: write the prefix of IPv6 that the translator puts in front of IPv4 addresses, as in 2001:db8:64::/96"
            ));
        };
        ensure!(
            LENGTHS.contains(&prefix.prefix_len()),
            "a translator has a prefix of 96, 64, 56, 48, 40 or 32 bits, and '{text}' has {}: write the prefix as the translator has it, as in 2001:db8:64::/96",
            prefix.prefix_len()
        );
        Ok(Self(prefix))
    }

    fn shown(&self) -> String {
        self.0.to_string()
    }
}

as_text!(Translator);

impl Settings {
    /// The prefixes as the program has them: the well-known one, then those that the operator names.
    pub fn translators(&self) -> Nat64 {
        let mut all = Nat64::WELL_KNOWN;
        let places = all.prefixes.iter_mut().skip(1);
        for (place, Translator(prefix)) in places.zip(&self.nat64) {
            *place = Prefix {
                first: key::address(prefix.network().into()).words,
                mask: leading_ones(prefix.prefix_len().into()),
            };
            all.length += 1;
        }
        all
    }

    /// Fails if there are too many prefixes, or two overlap.
    pub(super) fn check_nat64(&self) -> Result<(), Invalid> {
        let named = self.nat64.len();
        ensure!(
            named <= NAMED_MAX,
            "{named} prefixes of translators are too many: write at most {NAMED_MAX}"
        );
        let mut before = vec![well_known()];
        for Translator(prefix) in &self.nat64 {
            let overlaps = |other: &&Ipv6Net| other.contains(prefix) || prefix.contains(*other);
            if let Some(other) = before.iter().find(overlaps) {
                return Err(match *other == well_known() {
                    true => {
                        invalid!("{other} is always a prefix of translators: leave {prefix} out")
                    }
                    false => invalid!("{prefix} and {other} overlap: leave one out"),
                });
            }
            before.push(*prefix);
        }
        Ok(())
    }
}

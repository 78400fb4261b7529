//! Sets of prefixes that limits name without a list.

use std::collections::BTreeSet;

use super::Destination;
use crate::{Prefixes, lists};

/// The first character of the name of a set. Names of lists cannot have it.
const SET: char = '=';

/// The prefixes among sources or destinations, as the name of a list that no user can choose. None if there is no prefix.
pub(crate) fn set_name(places: &[Destination]) -> Option<String> {
    let prefixes = places.iter().filter_map(|place| match place {
        Destination::Prefix(prefix) => Some(lists::show(prefix)),
        Destination::List(_) => None,
    });
    let texts: BTreeSet<_> = prefixes.collect();
    let texts: Vec<_> = texts.into_iter().collect();
    (!texts.is_empty()).then(|| format!("{SET}{}", texts.join(",")))
}

/// The prefixes of a list with such a name. None for other lists.
pub(crate) fn set_of(name: &str) -> Option<Prefixes> {
    let prefixes = name.strip_prefix(SET)?.split(',');
    let prefixes = prefixes.filter_map(|text| lists::prefix(text).ok());
    Some(prefixes.collect())
}

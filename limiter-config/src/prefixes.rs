//! A set of prefixes, as short as millions of them need: sorted arrays, which clones share.

use std::{
    cmp::Ordering,
    fmt,
    iter::{Copied, FusedIterator},
    net::IpAddr,
    slice,
    sync::Arc,
};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Prefixes in order, each once: those of IPv4 first, each before the prefixes within it. A prefix of IPv4 takes 5 bytes,
/// and one of IPv6 17. A clone takes none until one of the two changes.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Prefixes {
    ipv4: Sorted<Ipv4Net>,
    ipv6: Sorted<Ipv6Net>,
}

impl Prefixes {
    /// No prefixes.
    pub fn new() -> Self {
        Self::default()
    }

    /// These prefixes, in any order.
    pub(crate) fn of_families(ipv4: Vec<Ipv4Net>, ipv6: Vec<Ipv6Net>) -> Self {
        let mut all = Self::new();
        all.ipv4.extend(ipv4);
        all.ipv6.extend(ipv6);
        all
    }

    /// The number of prefixes.
    pub fn len(&self) -> usize {
        self.ipv4.0.len() + self.ipv6.0.len()
    }

    /// Returns true if there is no prefix.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The prefixes in their order.
    pub fn iter(&self) -> Iter<'_> {
        Iter {
            ipv4: self.ipv4.0.iter().copied(),
            ipv6: self.ipv6.0.iter().copied(),
        }
    }

    /// The first prefix.
    pub fn first(&self) -> Option<IpNet> {
        self.iter().next()
    }

    /// True if there are prefixes of IPv4, and likewise of IPv6.
    pub fn families(&self) -> [bool; 2] {
        [!self.ipv4.0.is_empty(), !self.ipv6.0.is_empty()]
    }

    /// Adds all prefixes of another set.
    pub fn join(&mut self, other: Self) {
        match self.is_empty() {
            true => *self = other,
            false => self.extend(&other),
        }
    }

    /// Returns true if exactly this prefix is among them.
    pub fn contains(&self, prefix: &IpNet) -> bool {
        match prefix {
            IpNet::V4(net) => self.ipv4.find(net).is_ok(),
            IpNet::V6(net) => self.ipv6.find(net).is_ok(),
        }
    }

    /// The longest prefix that contains an address.
    pub fn around(&self, address: IpAddr) -> Option<IpNet> {
        let net = IpNet::from(address);
        let lengths = (0..=net.prefix_len()).rev();
        let around = lengths.filter_map(|length| IpNet::new(address, length).ok());
        around.map(|net| net.trunc()).find(|net| self.contains(net))
    }

    /// Adds a prefix. Returns false if it was there. Moves all prefixes behind it: many are added by [`Self::extend`].
    pub fn insert(&mut self, prefix: IpNet) -> bool {
        match prefix {
            IpNet::V4(net) => self.ipv4.insert(net),
            IpNet::V6(net) => self.ipv6.insert(net),
        }
    }

    /// Takes a prefix away. Returns false if it was not there.
    pub fn remove(&mut self, prefix: &IpNet) -> bool {
        match prefix {
            IpNet::V4(net) => self.ipv4.remove(net),
            IpNet::V6(net) => self.ipv6.remove(net),
        }
    }

    /// Takes all prefixes away.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Keeps some of the prefixes.
    pub fn retain(&mut self, mut stays: impl FnMut(&IpNet) -> bool) {
        self.ipv4.retain(|net| stays(&IpNet::V4(*net)));
        self.ipv6.retain(|net| stays(&IpNet::V6(*net)));
    }

    /// The prefixes that `other` does not have.
    pub fn difference<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = IpNet> + Clone {
        compared(self, other).filter_map(|(net, place)| (place == Ordering::Less).then_some(net))
    }

    /// The prefixes that `other` has, too.
    pub fn intersection<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = IpNet> + Clone {
        compared(self, other).filter_map(|(net, place)| (place == Ordering::Equal).then_some(net))
    }
}

/// The prefixes of two sets in order. Less: only the first set has it. Greater: only the second one.
fn compared<'a>(
    first: &'a Prefixes,
    second: &'a Prefixes,
) -> impl Iterator<Item = (IpNet, Ordering)> + Clone {
    let (mut first, mut second) = (first.iter().peekable(), second.iter().peekable());
    std::iter::from_fn(move || {
        let place = match (first.peek(), second.peek()) {
            (None, None) => return None,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(ours), Some(theirs)) => ours.cmp(theirs),
        };
        let net = match place {
            Ordering::Greater => second.next(),
            Ordering::Less => first.next(),
            Ordering::Equal => second.next().and(first.next()),
        };
        net.map(|net| (net, place))
    })
}

/// Values in order, each once.
#[derive(Clone, PartialEq, Eq)]
struct Sorted<T>(Arc<Vec<T>>);

impl<T> Default for Sorted<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

/// A prefix as a number that is compared faster, in the same order.
trait Number: Copy {
    type Number: Ord;

    fn number(&self) -> Self::Number;
}

impl Number for Ipv4Net {
    type Number = u64;

    fn number(&self) -> u64 {
        u64::from(self.addr().to_bits()) << 8 | u64::from(self.prefix_len())
    }
}

impl Number for Ipv6Net {
    type Number = (u128, u8);

    fn number(&self) -> (u128, u8) {
        (self.addr().to_bits(), self.prefix_len())
    }
}

impl<T: Number + PartialEq> Sorted<T> {
    fn find(&self, value: &T) -> Result<usize, usize> {
        self.0.binary_search_by_key(&value.number(), T::number)
    }

    fn insert(&mut self, value: T) -> bool {
        let place = self.find(&value);
        if let Err(place) = place {
            Arc::make_mut(&mut self.0).insert(place, value);
        }
        place.is_err()
    }

    fn remove(&mut self, value: &T) -> bool {
        let place = self.find(value);
        if let Ok(place) = place {
            Arc::make_mut(&mut self.0).remove(place);
        }
        place.is_ok()
    }

    fn retain(&mut self, mut stays: impl FnMut(&T) -> bool) {
        // Many sets keep all prefixes: these stay shared.
        let Some(first) = self.0.iter().position(|value| !stays(value)) else {
            return;
        };
        let mut number = 0;
        Arc::make_mut(&mut self.0).retain(|value| {
            number += 1;
            number <= first || number > first + 1 && stays(value)
        });
    }

    /// Adds values in any order.
    fn extend(&mut self, mut new: Vec<T>) {
        // Most lists are in order, or a few lists that are, one behind the other.
        new.sort_by_key(T::number);
        new.dedup();
        if self.0.is_empty() {
            new.shrink_to_fit();
            self.0 = Arc::new(new);
            return;
        }
        new.retain(|value| self.find(value).is_err());
        if !new.is_empty() {
            let all = Arc::make_mut(&mut self.0);
            all.reserve_exact(new.len());
            all.append(&mut new);
            all.sort_by_key(T::number);
        }
    }
}

/// The prefixes of a set, by [`Prefixes::iter`].
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    ipv4: Copied<slice::Iter<'a, Ipv4Net>>,
    ipv6: Copied<slice::Iter<'a, Ipv6Net>>,
}

impl Iterator for Iter<'_> {
    type Item = IpNet;

    fn next(&mut self) -> Option<IpNet> {
        let ipv4 = self.ipv4.next().map(IpNet::V4);
        ipv4.or_else(|| self.ipv6.next().map(IpNet::V6))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let length = self.ipv4.len() + self.ipv6.len();
        (length, Some(length))
    }
}

impl ExactSizeIterator for Iter<'_> {}
impl FusedIterator for Iter<'_> {}

impl<'a> IntoIterator for &'a Prefixes {
    type Item = IpNet;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl Extend<IpNet> for Prefixes {
    fn extend<I: IntoIterator<Item = IpNet>>(&mut self, new: I) {
        let (mut ipv4, mut ipv6) = (Vec::new(), Vec::new());
        for prefix in new {
            match prefix {
                IpNet::V4(net) => ipv4.push(net),
                IpNet::V6(net) => ipv6.push(net),
            }
        }
        self.ipv4.extend(ipv4);
        self.ipv6.extend(ipv6);
    }
}

impl<'a> Extend<&'a IpNet> for Prefixes {
    fn extend<I: IntoIterator<Item = &'a IpNet>>(&mut self, new: I) {
        self.extend(new.into_iter().copied());
    }
}

impl FromIterator<IpNet> for Prefixes {
    fn from_iter<I: IntoIterator<Item = IpNet>>(prefixes: I) -> Self {
        let mut all = Self::default();
        all.extend(prefixes);
        all
    }
}

impl<const N: usize> From<[IpNet; N]> for Prefixes {
    fn from(prefixes: [IpNet; N]) -> Self {
        prefixes.into_iter().collect()
    }
}

impl fmt::Debug for Prefixes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self).finish()
    }
}

impl Serialize for Prefixes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self)
    }
}

impl<'de> Deserialize<'de> for Prefixes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<IpNet>::deserialize(deserializer)?
            .into_iter()
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fastrand::Rng;

    use super::*;

    fn draw(rng: &mut Rng) -> IpNet {
        let net = match rng.bool() {
            true => IpNet::new([10, 0, 0, rng.u8(0..8)].into(), rng.u8(28..=32)),
            false => IpNet::new(
                std::net::Ipv6Addr::from(rng.u128(0..8)).into(),
                rng.u8(124..=128),
            ),
        };
        net.unwrap()
    }

    /// The tree is the measure: any order of changes gives its prefixes, in its order.
    #[test]
    fn prefixes_are_those_of_a_tree_after_any_changes() {
        let mut rng = Rng::with_seed(57);
        for _ in 0..300 {
            let (mut set, mut tree) = (Prefixes::new(), BTreeSet::new());
            for _ in 0..rng.usize(0..30) {
                let before = set.clone();
                let was = tree.clone();
                let net = draw(&mut rng);
                match rng.u8(0..7) {
                    0 => assert_eq!(set.insert(net), tree.insert(net)),
                    1 => assert_eq!(set.remove(&net), tree.remove(&net)),
                    2 => {
                        let length = rng.u8(0..=128);
                        set.retain(|net| net.prefix_len() <= length);
                        tree.retain(|net| net.prefix_len() <= length);
                    }
                    3 if rng.u8(0..4) == 0 => {
                        set.clear();
                        tree.clear();
                    }
                    _ => {
                        let new: Vec<_> = (0..rng.usize(0..12)).map(|_| draw(&mut rng)).collect();
                        set.extend(new.clone());
                        tree.extend(new);
                    }
                }
                assert!(set.iter().eq(tree.iter().copied()), "{set:?} {tree:?}");
                assert!(before.iter().eq(was.iter().copied()), "a clone has changed");
                assert_eq!((set.len(), set.is_empty()), (tree.len(), tree.is_empty()));
                assert_eq!(set.first(), tree.first().copied());
                assert_eq!(set.contains(&net), tree.contains(&net));
                assert_eq!(set == before, tree == was);
                assert!(set.difference(&before).eq(tree.difference(&was).copied()));
                assert!(before.difference(&set).eq(was.difference(&tree).copied()));
                assert!(
                    set.intersection(&before)
                        .eq(tree.intersection(&was).copied())
                );
                let json = serde_json::to_string(&set).unwrap();
                assert_eq!(json, serde_json::to_string(&tree).unwrap());
                assert_eq!(serde_json::from_str::<Prefixes>(&json).unwrap(), set);
            }
        }
    }
}

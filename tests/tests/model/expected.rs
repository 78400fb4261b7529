//! Models interfaces, attachments, and the effect of each step, without a kernel.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use limiter_common::policy::verdict::Reason;

use super::{
    bucket::{Bucket, Moments},
    config::{Config, Fate, Limit},
};

/// The counters of a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OfLimit {
    pub passed: u64,
    pub dropped: u64,
    pub would_drop: u64,
}

/// An attachment.
#[derive(Clone, Debug)]
pub struct Attached {
    /// Number of the interface; none once it is gone.
    pub device: Option<u8>,
    pub config: Config,
    pub file: Option<String>,
    /// Number of packets by the reason's number.
    pub counts: [u64; Reason::ALL.len()],
    pub limits: BTreeMap<String, OfLimit>,
    /// Buckets by limit and source.
    buckets: BTreeMap<(String, IpAddr), Bucket>,
}

/// The part of an address that the key /32,/64 uses.
fn key_of(source: IpAddr) -> IpAddr {
    match source {
        IpAddr::V4(_) => source,
        IpAddr::V6(source) => {
            let bits = u128::from(source) >> 64 << 64;
            IpAddr::V6(bits.into())
        }
    }
}

impl Attached {
    /// A new attachment.
    pub fn new(device: u8, config: Config, file: Option<String>) -> Self {
        Self {
            device: Some(device),
            config,
            file,
            counts: [0; Reason::ALL.len()],
            limits: BTreeMap::new(),
            buckets: BTreeMap::new(),
        }
    }

    /// The source's bucket under a limit.
    pub fn bucket(&self, limit: &Limit, source: IpAddr, now: u64) -> Bucket {
        let known = self.buckets.get(&(limit.name.clone(), key_of(source)));
        known.copied().unwrap_or_else(|| Bucket::full(limit, now))
    }

    /// Number of incoming packets.
    pub fn seen(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Number of packets of the reasons that `which` selects.
    pub fn sum(&self, which: impl Fn(Reason) -> bool) -> u64 {
        let reasons = Reason::ALL.into_iter().filter(|reason| which(*reason));
        reasons.map(|reason| self.counts[reason as usize]).sum()
    }

    /// Forgets the buckets of a source, or all.
    pub fn forget(&mut self, source: Option<IpAddr>) {
        let gone = source.map(key_of);
        self.buckets
            .retain(|(_, key), _| gone.is_some_and(|source| *key != source));
    }

    /// Sets another configuration. Limits keep their buckets.
    pub fn changed(&mut self, config: Config, moments: &Moments) {
        let old = std::mem::replace(&mut self.config, config);
        self.limits
            .retain(|name, _| self.config.limit(name).is_some());
        self.buckets
            .retain(|(name, _), _| self.config.limit(name).is_some() && old.limit(name).is_some());
        for ((name, _), bucket) in &mut self.buckets {
            let (Some(before), Some(after)) = (old.limit(name), self.config.limit(name)) else {
                continue;
            };
            if (&before.rate, before.burst()) != (&after.rate, after.burst()) {
                bucket.changed(before, after, moments);
            }
        }
    }

    /// Checks the counts for `sent` packets of `source` against the possible outcomes, and records them. `counted` has
    /// the packets of each reason since `attach`.
    pub fn take(
        &mut self,
        source: IpAddr,
        sent: u64,
        counted: [u64; Reason::ALL.len()],
        moments: &Moments,
    ) -> Result<(), String> {
        let grown =
            |reason: Reason| counted[reason as usize].wrapping_sub(self.counts[reason as usize]);
        let fate = self.config.fate(source);
        let limit = match &fate {
            Fate::Limited(name) => self.config.limit(name).cloned(),
            _ => None,
        };
        let shadow = self.config.shadow || limit.as_ref().is_some_and(|limit| limit.shadow);
        let reasons: &[Reason] = match &fate {
            Fate::Denied if shadow => &[Reason::WouldDrop],
            Fate::Denied => &[Reason::Deny],
            Fate::Allowed => &[Reason::Allowed],
            Fate::Unlimited => &[Reason::Unlimited],
            Fate::Limited(_) if shadow => &[Reason::Admitted, Reason::WouldDrop],
            // `Contended` may occur if a processor is stopped meanwhile.
            Fate::Limited(_) => &[Reason::Admitted, Reason::Limit, Reason::Contended],
        };
        let grew: Vec<_> = Reason::ALL
            .into_iter()
            .filter(|reason| grown(*reason) != 0)
            .map(|reason| (reason, grown(reason)))
            .collect();
        let expected: u64 = reasons.iter().map(|reason| grown(*reason)).sum();
        if expected != sent || grew.iter().any(|(reason, _)| !reasons.contains(reason)) {
            return Err(format!(
                "{sent} packets from {source}, which is {fate:?} (shadow: {shadow}), were counted as {grew:?}"
            ));
        }
        if let Some(limit) = limit {
            let admitted = grown(Reason::Admitted);
            self.charge(&limit, source, sent, admitted, moments)?;
            let counts = self.limits.entry(limit.name).or_default();
            counts.passed += if shadow { sent } else { admitted };
            *(if shadow {
                &mut counts.would_drop
            } else {
                &mut counts.dropped
            }) += sent - admitted;
        }
        self.counts = counted;
        Ok(())
    }

    fn charge(
        &mut self,
        limit: &Limit,
        source: IpAddr,
        sent: u64,
        admitted: u64,
        moments: &Moments,
    ) -> Result<(), String> {
        let mut bucket = self.bucket(limit, source, moments.before);
        let (least, most) = bucket.bounds(limit, moments, sent);
        if !(least..=most).contains(&admitted) {
            return Err(format!(
                "of {sent} packets from {source}, {admitted} were admitted by {limit:?}: {least} to {most} may be; bucket {bucket:?}, {moments:?}"
            ));
        }
        bucket.took(limit, moments, admitted);
        self.buckets
            .insert((limit.name.clone(), key_of(source)), bucket);
        Ok(())
    }
}

/// The whole model. An attachment has the name that its interface had at `attach`.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// Names of the interfaces. The other end of interface 1 is called `far1`.
    pub devices: BTreeMap<u8, String>,
    pub attached: BTreeMap<String, Attached>,
}

impl Model {
    /// The interface with this name.
    pub fn here(&self, name: &str) -> Option<u8> {
        let mut devices = self.devices.iter();
        let found = devices.find(|(_, device)| *device == name);
        found.map(|(far, _)| *far)
    }

    /// The name of an interface's attachment.
    pub fn of_device(&self, far: u8) -> Option<&str> {
        let mut all = self.attached.iter();
        let found = all.find(|(_, attached)| attached.device == Some(far));
        found.map(|(name, _)| name.as_str())
    }

    /// The name of the attachment of the interface that has this name.
    pub fn of_name(&self, name: &str) -> Option<&str> {
        self.here(name).and_then(|far| self.of_device(far))
    }

    /// Names of interfaces and attachments.
    pub fn names(&self) -> BTreeSet<String> {
        let devices = self.devices.values().cloned();
        devices.chain(self.attached.keys().cloned()).collect()
    }

    /// Creates, deletes or renames an interface. Returns false if that is not possible.
    pub fn move_device(&mut self, words: &[&str]) -> bool {
        let far: u8 = words[1].parse().unwrap();
        if words[0] == "delete" {
            for attached in self.attached.values_mut() {
                attached.device = attached.device.filter(|device| *device != far);
            }
            return self.devices.remove(&far).is_some();
        }
        let name = words[2];
        let creates = words[0] == "create";
        let is_taken = self.here(name).is_some_and(|there| creates || there != far);
        if is_taken || self.devices.contains_key(&far) == creates {
            return false;
        }
        self.devices.insert(far, name.to_owned());
        true
    }
}

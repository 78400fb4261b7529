//! The program in the kernel and a model of the documentation agree on every packet under random, changing settings.
//!
//! They agree on verdict, reason, limit and remaining tokens of each packet, and on the final counters.
//!
//! `LIMITER_SEED=0x... cargo xtask test configurations` repeats a failure, and continues with the next configurations.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::atomic::Ordering::Relaxed,
};

use fastrand::Rng;
use ipnet::IpNet;
use limiter_common::{
    abi::{KEPT_FOR, Source, counters::Count},
    arithmetic::{quota::Quota, scale},
    policy::verdict::Reason,
    table::key::SourceKey,
};
use limiter_config::{Settings, adaptive::stretch_of, file, key::Packet};
use limiter_tests::{
    cpus::pin_to,
    effort::repetitions,
    engine::runs_tc,
    generations::Generations,
    model::{Id, Model, bucket::State},
    need_kernel,
    random::{
        moment::Clock,
        packets, seed,
        settings::{self, FRAME_MAX},
    },
};

/// Number of configurations, usually and with `--thorough`. Loading a program takes a hundred times as long as sending
/// all of its packets.
const CONFIGURATIONS: [u64; 2] = [40, 60];
const PACKETS: u32 = 600;
/// Probability that the settings change before a packet, in thousandths.
const CHANGES: u32 = 2;
/// Upper bound on buckets. Each packet makes at most one per limit, including three limits on control traffic.
const SOURCES: u32 = PACKETS * 35;

/// A sequence of configurations, in the kernel and in the model.
struct Pair {
    seed: u64,
    rng: Rng,
    settings: Settings,
    clock: Clock,
    kernel: Generations,
    model: Model,
    changes: u32,
    scales: u32,
    /// Number of full buckets that were replaced by others.
    removed: u64,
}

impl Pair {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        // The phases of windows come from this generator.
        fastrand::seed(seed);
        let settings = settings::settings(&mut rng, SOURCES);
        let clock = Clock::new(&mut rng);
        let kernel = Generations::new(&settings, FRAME_MAX);
        // With few tokens left, a few packets use up even a large burst.
        let left = [rng.u64(0..10), rng.u64(0..200), u64::MAX][rng.usize(0..3)];
        let mut model = Model::new(&settings, &kernel.phases(), FRAME_MAX, left, clock.now);
        model.seed = kernel.kernel.tables.sets.seed;
        let full_at = model.new_sources_full_at().unwrap_or_default();
        kernel.fill_new_sources(word(full_at));
        Self {
            seed,
            rng,
            settings,
            clock,
            kernel,
            model,
            changes: 0,
            scales: 0,
            removed: 0,
        }
    }

    /// Changes the scale of an adaptive limit, if there is one.
    fn scale(&mut self) {
        let limits = self.settings.limits.iter();
        let adaptive: Vec<_> = limits.filter(|limit| limit.adaptive.is_some()).collect();
        let Some(limit) = self.rng.choice(adaptive) else {
            return;
        };
        let name = &limit.name;
        let floor = limit.adaptive.as_ref().unwrap().floor.of_one();
        let stretch = self.rng.u32(scale::ONE..=stretch_of(floor));
        let until = self.clock.now + (self.rng.u64(..1 << 40) >> self.rng.u32(..40));
        let slot = self.kernel.limit(name).1.number;
        let tables = &mut self.kernel.kernel.tables;
        tables.set_scale(slot, scale::word(stretch, until)).unwrap();
        self.model.scale(name, stretch, until);
        self.scales += 1;
    }

    /// The message for a difference.
    fn about(&self, difference: &str) -> String {
        let shown = file::show(&[], &self.settings);
        format!(
            "LIMITER_SEED={:#x}, at {} ns, after {} changes, phases {:?}\n{shown}\n{difference}",
            self.seed,
            self.clock.now,
            self.changes,
            self.kernel.phases()
        )
    }

    /// Offers one packet at a later time. Returns nothing if the model cannot predict the verdict.
    fn packet(&mut self) -> Option<Reason> {
        self.clock.step(&mut self.rng, &self.settings);
        let now = self.clock.now;
        let mut frame = packets::frame(&mut self.rng, &self.settings);
        while self.kernel.kernel.tc && !runs_tc(&frame) {
            frame = packets::frame(&mut self.rng, &self.settings);
        }
        let reason = self.kernel.kernel.offer(&frame, now);
        let gone = self.forget_replaced()?;
        let wanted = self.model.offer(&frame, now);
        let packet = || {
            let found: Vec<_> = wanted.buckets.iter().map(|id| self.in_kernel(id)).collect();
            let seen = format!("packet {frame:02x?}\nin the kernel: {found:?}");
            self.about(&format!("{seen}\nin the model: {wanted:?}"))
        };
        if wanted.buckets.iter().any(|id| gone.contains(id)) {
            return None;
        }
        assert_eq!(reason, wanted.reason, "{}", packet());
        if self.kernel.kernel.tc {
            let leaves_at = match wanted.delay {
                None => 0,
                Some(delay) => i128::from(now) + delay,
            };
            assert_eq!(
                i128::from(self.kernel.kernel.leaves_at.load(Relaxed)),
                leaves_at,
                "{}",
                packet()
            );
        }
        for id in &wanted.buckets {
            if let Some(difference) = self.bucket_differs(id) {
                panic!("{difference}: {}", packet());
            }
        }
        if let Some(difference) = self.figures_differ(wanted.refused_by.iter()) {
            panic!("{difference}: {}", packet());
        }
        Some(reason)
    }

    /// Removes the buckets from the model that were just replaced in the table. Checks that each was full, and had one
    /// packet or had been full for long.
    ///
    /// Returns nothing if one of the buckets was made again at once because the packet needs it too. The tokens that
    /// this takes from the new-source limit depend on the order of the limits.
    fn forget_replaced(&mut self) -> Option<Vec<Id>> {
        let removed = self
            .kernel
            .kernel
            .tables
            .counters()
            .unwrap()
            .sources_removed;
        if removed == self.removed {
            return Some(Vec::new());
        }
        let missing = |id: &&Id| self.in_kernel(id).is_none();
        let gone: Vec<Id> = self.model.buckets.keys().filter(missing).cloned().collect();
        if gone.len() as u64 != removed - self.removed {
            return None;
        }
        self.removed = removed;
        for id in &gone {
            let bucket = self.model.buckets.remove(id).unwrap();
            let quota = self.model.quota(&id.0).unwrap();
            let full =
                |moment: u64| quota.left(bucket.state, i128::from(moment) * 256) == quota.depth;
            let may_go = full(self.clock.now)
                && (bucket.passed + bucket.refused <= 1 || full(self.clock.now - KEPT_FOR));
            let about = || self.about(&format!("{id:?} lost its place: {bucket:?}"));
            assert!(may_go, "{}", about());
        }
        Some(gone)
    }

    /// Changes the settings.
    fn change(&mut self) {
        let new = settings::changed(&mut self.rng, &self.settings);
        self.kernel.change(&new, self.clock.now);
        self.settings = new;
        self.changes += 1;
        let phases = self.kernel.phases();
        let carried = (self.model).change(&self.settings, &phases, self.clock.now);
        for bucket in carried {
            let (source, quota) = self.in_kernel(&bucket.id).unwrap();
            let state = state(&source, &quota, self.clock.now);
            assert!(
                bucket.may_be(state),
                "{}",
                self.about(&format!("{bucket:?}, but in the kernel {state:?}"))
            );
            self.model.settle(&bucket.id, state);
        }
    }

    fn key(&self, (name, owner): &Id) -> SourceKey {
        let (limit, slot) = self.kernel.limit(name);
        let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let address = |prefix: &Option<IpNet>| prefix.as_ref().map_or(any, IpNet::network);
        let (protocol, source_port) = owner.flow.unwrap_or_default();
        let packet = Packet {
            source: address(&owner.source),
            destination: address(&owner.destination),
            protocol,
            source_port,
            destination_port: owner.port.unwrap_or(0),
            vlan: owner.vlan.unwrap_or(0),
        };
        let seed = self.kernel.kernel.tables.sets.seed;
        let nat64 = self.settings.translators();
        limit.key.of_packet(slot.number, &packet, &seed, &nat64)
    }

    fn in_kernel(&self, id: &Id) -> Option<(Source, Quota)> {
        let (limit, slot) = self.kernel.limit(&id.0);
        let source = self.kernel.bucket(slot, &self.key(id))?;
        Some((source, self.kernel.quota(limit, slot)))
    }

    /// Compares a bucket's state and counters between kernel and model.
    fn bucket_differs(&self, id: &Id) -> Option<String> {
        let (ours, wanted) = (self.in_kernel(id), self.model.buckets.get(id));
        let seen = ours.map(|(source, quota)| {
            let state = state(&source, &quota, self.clock.now);
            (state, source.passed, source.refused)
        });
        // The kernel returns the present tokens of a window.
        let wanted = wanted.map(|bucket| {
            let now = i128::from(self.clock.now) * 256;
            let quota = self.model.quota(&id.0).unwrap();
            let state = match bucket.state {
                State::FullAt(_) => bucket.state,
                State::Left { window, .. } => State::Left {
                    window: window.max(quota.window.unwrap().number(now)),
                    tokens: quota.left(bucket.state, now),
                },
            };
            (state, bucket.passed, bucket.refused)
        });
        (seen != wanted).then(|| format!("{id:?} holds {seen:?} instead of {wanted:?}"))
    }

    /// Compares the counters of limits.
    fn figures_differ<'a>(&self, names: impl Iterator<Item = &'a String>) -> Option<String> {
        let tables = &self.kernel.kernel.tables;
        let fast_path = tables.fast_path().unwrap().by_reason;
        let fast = |reasons: &[Reason]| -> Count {
            reasons
                .iter()
                .map(|reason| fast_path[*reason as usize])
                .sum()
        };
        for name in names {
            let (_, slot) = self.kernel.limit(name);
            let mut ours = tables.limit(slot.number).unwrap();
            if slot.number == 0 {
                // The fast path counts the packets of its limit only by reason.
                ours.admitted = ours.admitted + fast(&[Reason::Admitted]);
                ours.dropped = ours.dropped + fast(&[Reason::Limit, Reason::NewSource]);
                ours.would_drop = ours.would_drop + fast(&[Reason::WouldDrop]);
            }
            let wanted = self.model.figures.get(name).copied().unwrap_or_default();
            if ours != wanted {
                return Some(format!("{name} has counted {ours:?} instead of {wanted:?}"));
            }
        }
        None
    }

    /// Compares all counters and all buckets.
    fn finish(&self) {
        let tables = &self.kernel.kernel.tables;
        let counters = tables.counters().unwrap();
        let names: Vec<_> = (self.kernel.record.limits.iter())
            .map(|slot| slot.name.clone())
            .collect();
        let mut differences: Vec<String> = (self.model.buckets.keys())
            .filter_map(|id| self.bucket_differs(id))
            .chain(self.figures_differ(names.iter()))
            .collect();
        for (name, _) in self.settings.lists.all() {
            let bit = self.kernel.record.tiers.of(name).unwrap();
            let (ours, wanted) = (tables.hits(bit).unwrap(), self.model.hits.get(name));
            if ours != wanted.copied().unwrap_or_default() {
                differences.push(format!("list {name} has {ours:?} instead of {wanted:?}"));
            }
        }
        if counters.by_reason != self.model.reasons {
            let (ours, wanted) = (&counters.by_reason, &self.model.reasons);
            differences.push(format!("by reason {ours:?} instead of {wanted:?}"));
        }
        let kept = tables.sets.sources().count();
        let buckets = self.model.buckets.len();
        let sources = (kept, counters.sources_added, counters.sources_removed);
        if sources != (buckets, self.model.added, self.removed) {
            differences.push(format!(
                "sources kept, added, removed {sources:?} instead of {buckets}, {}, {}",
                self.model.added, self.removed
            ));
        }
        let new_sources = self.model.new_sources_full_at().map(word);
        if new_sources.is_some_and(|word| word != self.kernel.new_sources()) {
            differences.push("the new-source limit's bucket is another".to_owned());
        }
        assert!(
            differences.is_empty(),
            "{}",
            self.about(&differences.join("\n"))
        );
    }
}

/// A time in ticks, as the kernel stores it.
fn word(tick: i128) -> u64 {
    u64::try_from(tick.rem_euclid(1 << 64)).unwrap()
}

/// The state of a bucket, by the kernel's TAT.
fn state(source: &Source, quota: &Quota, now: u64) -> State {
    let ticks = i128::from(now) * 256;
    if quota.window.period == 0 {
        let ahead = source.tat.wrapping_sub(now << 8).cast_signed();
        return State::FullAt(ticks + i128::from(ahead));
    }
    let cut = quota.window;
    let present = i128::from((now + cut.phase) / cut.period);
    let written = i128::from(source.tat >> 32 & 0x7fff_ffff);
    State::Left {
        window: present.max(written),
        tokens: quota.left(source.tat, now).into(),
    }
}

#[test]
fn kernel_and_model_agree_on_random_configurations() {
    need_kernel!();
    // Each CPU has its own lease of new-source tokens.
    pin_to(0);
    let first = seed(0x0c0f_1600);
    let [usual, thorough] = CONFIGURATIONS;
    let configurations = repetitions(usual, thorough);
    let (mut seen, mut changes) = ([0_u64; Reason::ALL.len()], 0);
    let (mut removed, mut left_out, mut scales) = (0, 0, 0);
    for number in 0..configurations {
        let mut pair = Pair::new(first + number);
        let whole = (0..PACKETS).all(|_| {
            if pair.rng.u32(0..1_000) < CHANGES {
                pair.change();
            }
            if pair.rng.u32(0..20) == 0 {
                pair.scale();
            }
            let reason = pair.packet();
            reason
                .inspect(|reason| seen[*reason as usize] += 1)
                .is_some()
        });
        if whole {
            pair.finish();
        } else {
            left_out += 1;
        }
        changes += pair.changes;
        scales += pair.scales;
        removed += pair.removed;
    }
    println!(
        "{changes} changes, {scales} scales, {removed} buckets replaced, {left_out} left out, {:?}",
        Reason::ALL.map(|reason| (reason, seen[reason as usize]))
    );
    // Every reason occurred, except those that need other CPUs, sockets and bans.
    for reason in Reason::ALL {
        let times = seen[reason as usize];
        match reason {
            Reason::Contended
            | Reason::Established
            | Reason::Answered
            | Reason::Ban
            | Reason::Connections => {
                assert_eq!(times, 0, "{reason:?}");
            }
            _ => assert!(times > 30, "{reason:?} came up {times} times"),
        }
    }
    assert!(changes > 30, "{changes} changes");
    assert!(scales > 100, "{scales} scales");
    assert!(left_out <= configurations / 10, "{left_out} left out");
}

//! A host's bucket misses only packets that the host cannot know of, and counts no packet twice.
//!
//! The hosts have unrelated clocks, and their network loses, repeats, delays and reorders messages.

mod fake;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::Arc,
    time::Duration,
};

use limiter_common::arithmetic::bucket::{Decision, decide};
use limiter_fleet::{
    ledger::Record,
    member::{Member, Round},
    refill::Reading,
    shared_quota::{Fleet, Quota},
};
use proptest::{collection::vec, prelude::*};

use fake::{Bucket, Fake, MS};

/// Packets of each host, by number.
type Packets = Vec<BTreeSet<usize>>;

struct Host {
    /// Difference between the host's clock and the true time.
    offset: u64,
    /// The table. Its only entry has the source after the first admitted packet.
    table: Fake,
    /// True times of the admitted packets.
    admitted: Vec<u64>,
    member: Member,
    /// Number of times that the host's agent was restarted.
    lives: u32,
    /// The packets in each of the host's rounds, by the agent's life and the round's number.
    sent: BTreeMap<(u32, u64), Range<usize>>,
    /// Packets of other hosts that the host's bucket was charged with.
    heard: Packets,
    /// Packets of other hosts that the present record has reported to the host.
    reported: Packets,
    /// Packets reported both by a store and by its successor: their round was under way when the first store lost
    /// everything.
    again: u64,
    /// True time of the store's last answer.
    answered: u64,
    /// The `born` of the record that the host has read.
    born: u64,
    /// The delay of the latest packets that were charged for other hosts.
    delay: u64,
    /// Ticks of refill taken off the charges since the exact bucket was last full.
    credit: u64,
    /// Ticks taken off since the beginning, and the overflow since then: no more can be taken off.
    taken_off: u64,
    ran_over: u64,
    /// Own packets that the store could not know of when the host first read the record.
    unpublished: u64,
}

/// The store's data.
#[derive(Clone, Default)]
struct Kept {
    born: u64,
    total: u64,
    /// True time at which the fleet's bucket is full.
    full_at: u64,
    rounds: BTreeMap<(usize, u32), u64>,
    packets: Packets,
}

#[derive(Clone)]
enum Message {
    /// A round of a host, in one of its agent's lives.
    Round((usize, u32), Arc<Round>),
    Answer((usize, u32), Arc<Round>, Record, Packets),
}

struct World {
    quota: Quota,
    now: u64,
    hosts: Vec<Host>,
    store: Kept,
    births: u64,
    wires: Vec<Message>,
    /// Ticks spent at `now` in the exact bucket of all packets.
    truth: u64,
    /// Time at which the exact bucket was last full.
    full: u64,
}

impl World {
    fn new(hosts: usize, quota: Quota, offsets: &[u64]) -> Self {
        let now = 1 << 60;
        let host = |offset: &u64| Host {
            offset: *offset,
            table: Fake::new(quota, 1),
            admitted: Vec::new(),
            member: Member::new(1),
            lives: 0,
            sent: BTreeMap::new(),
            heard: vec![BTreeSet::new(); hosts],
            reported: vec![BTreeSet::new(); hosts],
            again: 0,
            answered: now,
            born: 0,
            delay: 0,
            credit: 0,
            taken_off: 0,
            ran_over: 0,
            unpublished: 0,
        };
        Self {
            quota,
            now,
            hosts: offsets.iter().take(hosts).map(host).collect(),
            store: Kept {
                packets: vec![BTreeSet::new(); hosts],
                ..Kept::default()
            },
            births: 0,
            wires: Vec::new(),
            truth: 0,
            full: now,
        }
    }

    fn pass(&mut self, time: u64) {
        for host in &mut self.hosts {
            // The refill of an unused bucket has overflowed too, without being tracked.
            let spent = host.read(self.now).map_or(0, |reading| reading.spent());
            host.ran_over += time.saturating_sub(spent);
        }
        self.now += time;
        if self.truth <= time {
            self.full = self.now;
            self.hosts.iter_mut().for_each(|host| host.credit = 0);
        }
        self.truth = self.truth.saturating_sub(time);
    }

    fn packet(&mut self, host_index: usize) {
        let Quota { cost, tau, .. } = self.quota;
        let host = &mut self.hosts[host_index];
        let now = self.now.wrapping_add(host.offset);
        let bucket = &mut host.table.buckets.get_mut()[0];
        let before = bucket.map_or(now, |bucket| bucket.tat);
        if let Decision::Admit { tat } = decide(before, now, cost, tau) {
            host.admitted.push(self.now);
            *bucket = Some(Bucket {
                source: 7,
                tat,
                admitted: host.admitted.len() as u64,
            });
            self.truth += cost;
        }
    }

    fn fleet(&self) -> Fleet {
        Fleet {
            hosts: u32::try_from(self.hosts.len()).expect("a few"),
            staleness: Duration::from_secs(10),
        }
    }

    /// Scans a host's table, and sends the rounds that are due.
    fn scan(&mut self, host_index: usize) {
        let (fleet, host) = (self.fleet(), &mut self.hosts[host_index]);
        let now = self.now.wrapping_add(host.offset);
        let count = host.admitted.len();
        let is_idle = host.member.unanswered().next().is_none();
        host.member.scan(&host.table, fleet, now);
        if host.member.sources() == 0 {
            // The source was dropped: the next reading of the record is the first one.
            host.born = 0;
        }
        for round in host.member.unanswered().filter(|_| is_idle) {
            let packets = usize::try_from(round.items[0].packets).expect("a few");
            let life = host.lives;
            host.sent
                .insert((life, round.number), count - packets..count);
            self.wires
                .push(Message::Round((host_index, life), Arc::clone(round)));
        }
    }

    fn send_again(&mut self, host_index: usize) {
        let host = &self.hosts[host_index];
        let again = host.member.unanswered();
        let again = again.map(|round| Message::Round((host_index, host.lives), round.clone()));
        self.wires.extend(again);
    }

    fn empty(&mut self) {
        self.store = Kept {
            packets: vec![BTreeSet::new(); self.hosts.len()],
            ..Kept::default()
        };
    }

    /// Restarts an agent with another id. The old agent's messages have arrived by then, or are lost.
    fn restart(&mut self, host_index: usize) {
        self.wires.retain(
            |message| !matches!(message, Message::Round((from, _), _) if *from == host_index),
        );
        let host = &mut self.hosts[host_index];
        host.member = Member::new(1);
        host.lives += 1;
        host.born = 0;
        self.scan(host_index);
    }

    fn deliver(&mut self, message: Message) {
        match message {
            Message::Round(from, round) => self.serve(from, &round),
            Message::Answer(receiver, round, record, packets) => {
                self.take(receiver, &round, record, &packets);
            }
        }
    }

    /// Does the work of the store's script.
    fn serve(&mut self, (from, life): (usize, u32), round: &Arc<Round>) {
        let (now, cost) = (self.now, self.quota.cost);
        let last = self.store.rounds.entry((from, life)).or_default();
        let packets = round.items[0].packets;
        if round.number > *last {
            *last = round.number;
            if packets > 0 {
                if self.store.born == 0 {
                    self.births += 1;
                    self.store.born = self.births;
                }
                self.store.total += packets;
                self.store.full_at = self.store.full_at.max(now) + packets * cost;
                for number in self.hosts[from].sent[&(life, round.number)].clone() {
                    let is_new = self.store.packets[from].insert(number);
                    assert!(is_new, "a packet is counted once");
                }
            }
        }
        let record = Record {
            born: self.store.born,
            total: self.store.total,
            spent: self.store.full_at.saturating_sub(now),
        };
        self.wires.push(Message::Answer(
            (from, life),
            Arc::clone(round),
            record,
            self.store.packets.clone(),
        ));
    }

    fn take(
        &mut self,
        (receiver, life): (usize, u32),
        round: &Round,
        record: Record,
        counted: &Packets,
    ) {
        let (now, cost) = (self.now, self.quota.cost);
        let times = self.hosts.iter().map(|host| host.admitted.clone());
        let times: Vec<Vec<u64>> = times.collect();
        let host = &mut self.hosts[receiver];
        if life != host.lives {
            return;
        }
        let spent = host.read(now).map_or(0, |reading| reading.spent());
        host.member
            .answer(&host.table, round, &[record], now.wrapping_add(host.offset));
        let ticks = host.table.wanted.take();
        if host.table.reads.take() == 0 {
            assert_eq!(ticks, 0, "the answer was late, or the source was dropped");
            return;
        }
        let is_first = host.born != record.born;
        host.born = record.born;
        if is_first {
            host.unpublished = (host.admitted.len() - counted[receiver].len()) as u64;
            // The adopted level has all packets as if they arrived when the store got them.
            for (times, packets) in times.iter().zip(counted) {
                let late = packets.iter().map(|number| now - times[*number]).max();
                host.delay = host.delay.max(late.unwrap_or(0));
            }
        }
        let mut new = 0;
        for (from, packets) in counted
            .iter()
            .enumerate()
            .filter(|(from, _)| *from != receiver)
        {
            for number in packets {
                if !is_first && host.reported[from].contains(number) {
                    continue;
                }
                new += 1;
                if host.heard[from].contains(number) {
                    host.again += u64::from(!is_first);
                    continue;
                }
                // The packets use the refill that overflowed since the last answer, as if they had arrived then.
                let from_when = if is_first { now } else { host.answered };
                let late = from_when.saturating_sub(times[from][*number]);
                host.delay = host.delay.max(late);
            }
        }
        let due = if is_first {
            let own = spent.saturating_sub(host.unpublished * cost);
            record.spent.saturating_sub(own).min(new * cost)
        } else {
            assert!(ticks <= new * cost, "more than others have charged");
            new * cost
        };
        let credit = due.saturating_sub(ticks);
        host.credit += credit;
        if !is_first {
            // At a first reading the level decides, and the charged packets are not exactly known.
            host.taken_off += credit;
        }
        for (heard, reported) in host.heard.iter_mut().zip(counted) {
            heard.extend(reported);
        }
        host.reported.clone_from(counted);
        host.answered = now;
    }

    /// Checks that no host is above the truth by more than its late packets.
    fn check_above(&self) {
        for (host_index, host) in self.hosts.iter().enumerate() {
            let spent = host.read(self.now).map_or(0, |reading| reading.spent());
            assert!(
                spent <= self.truth + host.delay + host.again * self.quota.cost,
                "host {host_index} has {} ms and {} ticks more than the truth, {} ms, and the latest charge was {} ms late",
                (spent - self.truth) / MS,
                (spent - self.truth) % MS,
                self.truth / MS,
                host.delay / MS,
            );
        }
    }

    /// Checks that no host is below the truth by more than the packets it cannot know of.
    fn check_below(&self) {
        for (host_index, host) in self.hosts.iter().enumerate() {
            assert!(host.taken_off <= host.ran_over, "too much credit");
            let spent = host.read(self.now).map_or(0, |reading| reading.spent());
            let mut unheard = 0;
            for (from, other) in self
                .hosts
                .iter()
                .enumerate()
                .filter(|(from, _)| *from != host_index)
            {
                let times = other.admitted.iter().enumerate();
                let recent = times.filter(|(_, time)| **time >= self.full);
                let unheard_of = recent.filter(|(number, _)| !host.heard[from].contains(number));
                unheard += unheard_of.count() as u64;
            }
            let unknown = (unheard + host.unpublished) * self.quota.cost;
            let credit = host.credit;
            assert!(
                self.truth <= spent + unknown + credit,
                "host {host_index} has {} ms less than the truth, {} ms, of which {} ms are unheard of, {} ms credit",
                (self.truth - spent) / MS,
                self.truth / MS,
                unknown / MS,
                credit / MS,
            );
        }
    }
}

impl Host {
    fn read(&self, now: u64) -> Option<Reading> {
        let bucket = self.table.buckets.borrow()[0]?;
        Some(Reading {
            tat: bucket.tat,
            epoch: 0,
            now: now.wrapping_add(self.offset),
        })
    }
}

#[derive(Clone, Debug)]
enum Event {
    Packets(usize, u8),
    Pass(u64),
    Scan(usize),
    SendAgain(usize),
    /// Delivers the message with this index this many times; 0: it is lost.
    Deliver(usize, u8),
    /// Delivers all messages under way, until all hosts know everything.
    Quiet,
    /// The store loses everything.
    Emptied,
    /// Restarts an agent.
    Restarted(usize),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let host = 0..4_usize;
    let event = prop_oneof![
        4 => (host.clone(), 1..12_u8).prop_map(|(host, packets)| Event::Packets(host, packets)),
        4 => (0..150 * MS).prop_map(Event::Pass),
        1 => (0..4_000 * MS).prop_map(Event::Pass),
        6 => host.clone().prop_map(Event::Scan),
        1 => host.prop_map(Event::SendAgain),
        8 => (any::<usize>(), prop_oneof![8 => Just(1), 1 => Just(0), 1 => Just(2)])
            .prop_map(|(place, times)| Event::Deliver(place, times)),
        1 => Just(Event::Quiet),
    ];
    vec(event, 1..200)
}

/// The events, plus losses that make the exchange begin anew.
fn events_and_losses() -> impl Strategy<Value = Vec<Event>> {
    let loss = prop_oneof![
        1 => Just(Event::Emptied),
        1 => (0..4_usize).prop_map(Event::Restarted),
    ];
    (events(), vec((any::<prop::sample::Index>(), loss), 1..6)).prop_map(|(mut events, losses)| {
        for (place, loss) in losses {
            events.insert(place.index(events.len() + 1), loss);
        }
        events
    })
}

fn run(world: &mut World, event: &Event) {
    let hosts = world.hosts.len();
    match *event {
        Event::Packets(host, packets) => (0..packets).for_each(|_| world.packet(host % hosts)),
        Event::Pass(time) => world.pass(time),
        Event::Scan(host) => world.scan(host % hosts),
        Event::SendAgain(host) => world.send_again(host % hosts),
        Event::Deliver(place, times) if !world.wires.is_empty() => {
            let place = place % world.wires.len();
            let message = world.wires.swap_remove(place);
            for _ in 0..times {
                world.deliver(message.clone());
            }
        }
        Event::Deliver(..) => {}
        Event::Emptied => world.empty(),
        Event::Restarted(host) => world.restart(host % hosts),
        Event::Quiet => {
            for _ in 0..2 {
                for host in 0..hosts {
                    world.scan(host);
                    world.send_again(host);
                    while let Some(message) = world.wires.pop() {
                        world.deliver(message);
                    }
                }
            }
        }
    }
}

/// Hosts with unrelated clocks. The agents do not know of packets from before they started.
fn worlds() -> impl Strategy<Value = (usize, Vec<u64>, Quota)> {
    let quota = (1..300_u64, 1..20_u64).prop_map(|(cost, burst)| Quota {
        tau: cost * burst * MS,
        cost: cost * MS,
        epoch: 0,
    });
    (1..4_usize, vec(any::<u64>(), 4), quota)
}

fn begun((hosts, offsets, quota): (usize, Vec<u64>, Quota)) -> World {
    let mut world = World::new(hosts, quota, &offsets);
    (0..hosts).for_each(|host| world.scan(host));
    world
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// This holds whatever happens to the messages.
    #[test]
    fn levels_miss_only_unreported_packets_and_count_none_twice(
        world in worlds(),
        events in events(),
    ) {
        let mut world = begun(world);
        for event in &events {
            run(&mut world, event);
            world.check_below();
            world.check_above();
        }
    }

    #[test]
    fn packets_are_not_charged_twice_after_a_store_or_agent_restart(
        world in worlds(),
        events in events_and_losses(),
    ) {
        let mut world = begun(world);
        for event in &events {
            run(&mut world, event);
            world.check_above();
        }
    }
}

//! The loop.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use futures_util::{FutureExt, StreamExt};
use tokio::{sync::mpsc, time::MissedTickBehavior};

use super::{
    answer::Edited,
    connection::Connection,
    exchange::{Came, UnderWay},
    lists::Lost,
    place::{BEAT, Place},
    question::{Answer, Question},
    survey::Survey,
};
use crate::{
    host::{Host, Refused},
    store::{self, Beat, Error, Lists, Store, Target},
    text::counted,
};

/// A member that has not been heard of for so long is not counted.
const ALIVE: Duration = Duration::from_secs(3);

/// What the agent is to do.
#[derive(Debug)]
pub struct Options {
    /// The store.
    pub store: store::Options,
    /// How often to look at the tables, and to exchange.
    pub interval: Duration,
    /// What this host calls itself in the store.
    pub host: String,
    /// Tells people something: a line.
    pub say: fn(&str),
}

/// The agent.
pub struct Agent<H: Host> {
    host: H,
    /// What it is to do.
    pub(super) options: Options,
    /// The store.
    pub(super) connection: Connection,
    survey: Survey,
    /// The members that are here.
    pub(super) places: Vec<Place<H::Table>>,
    /// The addresses of the store: what the fleet denies must not be in the way to it.
    pub(super) store_at: Vec<IpAddr>,
    under_way: UnderWay,
    edited: mpsc::UnboundedReceiver<Edited>,
    /// Where what the store says to an edit comes.
    pub(super) edits: mpsc::UnboundedSender<Edited>,
}

impl<H: Host> Agent<H> {
    /// An agent of `host`, which has not done anything yet.
    ///
    /// # Errors
    /// If the store's address or certificates are not valid.
    pub fn new(options: Options, host: H) -> Result<Self, Error> {
        let target = Target::read(&options.store)?;
        let (edits, edited) = mpsc::unbounded_channel();
        Ok(Self {
            host,
            connection: Connection::new(target, options.say),
            survey: Survey::new(options.say),
            options,
            places: Vec::new(),
            store_at: Vec::new(),
            under_way: UnderWay::default(),
            edited,
            edits,
        })
    }

    /// Works until `stop`, and answers questions.
    ///
    /// # Errors
    /// If the clock of the host cannot be read.
    pub async fn run(
        mut self,
        mut questions: mpsc::Receiver<(Question, Answer)>,
        stop: impl Future<Output = ()>,
    ) -> Result<(), String> {
        let mut ticks = tokio::time::interval(self.options.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        tokio::pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => break,
                _ = ticks.tick() => self.tick().await?,
                Some(came) = self.under_way.coming.next() => self.take(came)?,
                Some(edited) = self.edited.recv() => self.take_edit(edited),
                Some((question, answer)) = questions.recv() => self.answer(question, answer),
            }
            self.put_lists_in_force().await;
        }
        self.leave().await;
        Ok(())
    }

    async fn tick(&mut self) -> Result<(), String> {
        let now = Instant::now();
        let is_outdated = self.places.iter().any(|place| place.attached.is_outdated);
        // Also while the store is away: what is attached meanwhile is accounted for from then on.
        if let Some(in_shards) = self.connection.in_shards
            && (now >= self.survey.next || is_outdated)
        {
            let host = &self.options.host;
            let gone = self
                .survey
                .look(&mut self.host, &mut self.places, in_shards, host)
                .await;
            gone.into_iter().for_each(|place| self.take_leave_of(place));
        }
        if let Some(connecting) = self.connection.connect(now) {
            let connected = connecting.map(Came::Connected);
            self.under_way.coming.push(Box::pin(connected));
        }
        let interval = self.options.interval;
        let (mut store, under_way) = (self.connection.store(), &mut self.under_way);
        for place in &mut self.places {
            let late = place.lateness(interval, now);
            // A long look would make answers late that are under way.
            let is_awaiting = store.is_some() && under_way.of(place.attached.id) > 0;
            if !is_awaiting || place.looks.may_begin(now) {
                let begin = Instant::now();
                for round in place.attached.scan(late, self.host.now()?) {
                    place.sent.insert(round.group, now);
                }
                place.looks.done(now, begin.elapsed());
            }
            // What is over is over, whether or not the store is there.
            let over = place.known.expire(now);
            place.clearing.is_over(over, place.attached.hosts, now);
            let Some(store) = &mut store else {
                continue;
            };
            if place.is_counted {
                under_way.send(store, &place.attached, place.attached.state(late));
            }
            if now >= place.next_beat && !place.is_beating {
                place.next_beat = now + BEAT;
                place.is_beating = true;
                let (id, name) = (place.attached.id, place.attached.about().fleet.clone());
                let (mut store, label) = (store.clone(), place.label.clone());
                under_way.coming.push(Box::pin(async move {
                    Came::Beat(id, now, store.heartbeat(&name, id, &label, ALIVE).await)
                }));
            }
            if let Some((held, gone)) = place.compared.due(now, || place.attached.held()) {
                let (id, name) = (place.attached.id, place.attached.about().fleet.clone());
                let mut store = store.clone();
                under_way.coming.push(Box::pin(async move {
                    let all = store.compare(&name, &held, &gone, ALIVE).await;
                    Came::Compared(id, held, all)
                }));
            }
            let lost = place.known.lost(now);
            if !lost.is_empty() {
                let (mut store, fleet) = (store.clone(), place.attached.about().fleet.clone());
                let id = place.attached.id;
                under_way.coming.push(Box::pin(async move {
                    Came::Restored(id, restore(&mut store, &fleet, &lost).await)
                }));
            }
            for list in place.clearing.due(now) {
                let (mut store, name) = (store.clone(), place.attached.about().fleet.clone());
                tokio::spawn(async move {
                    // Another one does it if this one cannot.
                    let _ = store.edit(&name, &list, store::Edit::ClearExpired).await;
                });
            }
        }
        Ok(())
    }

    fn take(&mut self, came: Came) -> Result<(), String> {
        match came {
            Came::Connected(Ok((store, addresses))) => {
                self.take_addresses(addresses);
                if self.connection.connected(store) {
                    // Its rounds are of another form.
                    self.places.clear();
                }
                // Rounds are sent again.
                self.under_way.begin_anew();
                let now = Instant::now();
                for place in &mut self.places {
                    place.begin_anew(now, now + ALIVE);
                }
                self.survey.next = now;
            }
            Came::Connected(Err(error)) => self.connection.refused(&error),
            Came::Answer {
                member,
                number,
                group,
                sent,
                records,
            } => match records {
                Ok(records) => {
                    self.under_way.arrived(member, group, sent);
                    let ticks = self.host.now()?;
                    if let Some(place) = self.place(member) {
                        place.attached.answer(number, group, &records, ticks);
                        place.sent.remove(&group);
                        place.answered(sent);
                    }
                    self.send_to(member);
                    self.works();
                }
                Err(error) => {
                    self.under_way.failed(member, group, &error);
                    self.connection.failed(&error);
                }
            },
            Came::Beat(member, sent, beat) => {
                if let Some(place) = self.place(member) {
                    place.is_beating = false;
                }
                match beat {
                    Ok(beat) => {
                        self.works();
                        self.take_beat(member, sent, &beat);
                    }
                    Err(error) => self.connection.failed(&error),
                }
            }
            Came::Compared(member, held, all) => {
                if let Err(error) = &all {
                    self.connection.failed(error);
                }
                let say = self.options.say;
                if let Some(place) = self.place(member) {
                    let Ok(all) = all else {
                        place.compared.failed();
                        return Ok(());
                    };
                    let fleet = &place.attached.about().fleet;
                    for text in place.compared.answered(held, &all, fleet) {
                        say(&format!("{}: {text}", place.attached.about().interface));
                    }
                }
            }
            Came::Restored(member, restored) => {
                if let Err(error) = &restored {
                    self.connection.failed(error);
                }
                let say = self.options.say;
                if let Some(place) = self.place(member) {
                    match restored {
                        Ok(0) => {}
                        Ok(prefixes) => say(&format!(
                            "{}: put {} back on the lists of fleet '{}'",
                            place.attached.about().interface,
                            counted(prefixes, "prefix"),
                            place.attached.about().fleet
                        )),
                        Err(_) => place.known.not_restored(Instant::now()),
                    }
                }
            }
            Came::Lists(member, number, names, lists) => {
                if let Err(error) = &lists {
                    self.connection.failed(error);
                }
                self.take_lists(member, number, &names, lists);
            }
        }
        Ok(())
    }

    /// The store has answered.
    fn works(&mut self) {
        if self.connection.works() {
            // It may have taken nobody's heartbeats: who comes back first is not alone because of that.
            let returning = Instant::now() + ALIVE;
            let places = self.places.iter_mut();
            places.for_each(|place| place.returning = returning);
        }
    }

    /// Sends what has waited for this answer.
    fn send_to(&mut self, member: u64) {
        let (interval, now) = (self.options.interval, Instant::now());
        let Some(store) = self.connection.store() else {
            return;
        };
        let of = |place: &&mut Place<_>| place.attached.id == member;
        if let Some(place) = self.places.iter_mut().find(of) {
            let late = place.lateness(interval, now);
            let state = place.attached.state(late);
            self.under_way.send(&store, &place.attached, state);
        }
    }

    /// The others need not wait until they notice that it is no more.
    fn take_leave_of(
        &self,
        Place {
            attached,
            label,
            compared,
            ..
        }: Place<H::Table>,
    ) {
        if let Some(mut store) = self.connection.store() {
            let (fleet, id) = (attached.about().fleet.clone(), attached.id);
            tokio::spawn(async move {
                // They notice in any case.
                let _ = store.leave(&fleet, id, &label, compared.told()).await;
            });
        }
    }

    /// The member of this id, if it is still there.
    pub(super) fn place(&mut self, member: u64) -> Option<&mut Place<H::Table>> {
        self.places
            .iter_mut()
            .find(|place| place.attached.id == member)
    }

    fn take_beat(&mut self, member: u64, sent: Instant, beat: &Beat) {
        let say = self.options.say;
        let Some(place) = self.place(member) else {
            return;
        };
        place.answered(sent);
        place.is_counted = true;
        place.heard_of(beat.oldest);
        // A store that comes back knows of none; who comes back first is not alone because of that.
        let may_miss = Instant::now() < place.returning;
        if place.attached.hosts < beat.hosts || (place.attached.hosts > beat.hosts && !may_miss) {
            say(&format!(
                "{}: fleet '{}' has {} now",
                place.attached.about().interface,
                place.attached.about().fleet,
                counted(beat.hosts.into(), "host")
            ));
            place.attached.hosts = beat.hosts;
        }
        let is_new = place.known.revision != Some(beat.revision);
        if is_new && !place.reading.is_under_way() && place.force.is_rested(Instant::now()) {
            self.read_lists(member);
        }
    }

    fn take_addresses(&mut self, addresses: Vec<IpAddr>) {
        // A name that says nothing just now: the store is where it was.
        if !addresses.is_empty() && self.store_at != addresses {
            self.store_at = addresses;
            for place in &mut self.places {
                place.known.is_pending = true;
            }
        }
    }

    fn take_lists(
        &mut self,
        member: u64,
        number: u64,
        names: &[String],
        lists: Result<Lists, Error>,
    ) {
        let say = self.options.say;
        let Some(place) = self.place(member) else {
            return;
        };
        if !place.reading.arrived(number) {
            return;
        }
        match lists {
            Ok(lists) => {
                let wrong = place.known.take(names, lists, Instant::now());
                wrong.iter().for_each(|text| say(text));
            }
            Err(error) => {
                let why = format!(
                    "the store has it, and this host could not read it back yet ({error}): it will be in force when the store answers"
                );
                place.answer_waiting(&Err(why));
            }
        }
    }

    /// Reads the lists of a member's fleet.
    pub(super) fn read_lists(&mut self, member: u64) {
        let Some(mut store) = self.connection.store() else {
            return;
        };
        let Some(place) = self.place(member) else {
            return;
        };
        let number = place.reading.begin();
        let fleet = place.attached.about().fleet.clone();
        let names: Vec<String> = place.attached.about().lists.iter().cloned().collect();
        self.under_way.coming.push(Box::pin(async move {
            let asked: Vec<&str> = names.iter().map(String::as_str).collect();
            let lists = store.lists(&fleet, &asked).await;
            Came::Lists(member, number, names, lists)
        }));
    }

    /// Brings what the fleet wants on the lists to the interfaces.
    async fn put_lists_in_force(&mut self) {
        let say = self.options.say;
        for place in &mut self.places {
            let start = Instant::now();
            let is_due = place.force.is_due(start, place.is_awaited());
            if !place.known.is_pending || !is_due {
                continue;
            }
            place.known.is_pending = false;
            let (wanted, left_out) = place.known.wanted(&self.store_at);
            let interface = place.attached.about().interface.clone();
            let result = self.host.edit_lists(&interface, wanted).await;
            if matches!(result, Err(Refused::Busy)) && place.force.waits(start) {
                place.known.is_pending = true;
                continue;
            }
            let took = start.elapsed() + place.reading.took;
            // The program is another one now.
            place.attached.is_outdated |= matches!(result, Ok(true));
            let result = result.map(drop).map_err(|refused| match refused {
                Refused::Busy => "another limiter command is at work".to_owned(),
                Refused::Failed(why) => why,
            });
            // Something else may be in the way for a moment.
            place.known.is_pending |= result.is_err();
            for text in place.force.done(&result, left_out, took) {
                say(&format!("{interface}: {text}"));
            }
            place.answer_waiting(&result);
        }
    }

    /// The others need not wait until they notice.
    async fn leave(self) {
        let Some(mut store) = self.connection.store() else {
            return;
        };
        for place in &self.places {
            let (fleet, held) = (&place.attached.about().fleet, place.compared.told());
            let left = store.leave(fleet, place.attached.id, &place.label, held);
            // They notice in any case.
            let _ = tokio::time::timeout(Duration::from_millis(500), left).await;
        }
    }
}

/// Puts back what the store has lost. Returns how many prefixes nobody had put back before.
async fn restore(store: &mut Store, fleet: &str, lost: &[Lost]) -> Result<u64, Error> {
    let mut all = 0;
    for lost in lost {
        let edit = store::Edit::Restore {
            prefixes: &lost.prefixes,
            by: &lost.by,
            age: lost.age,
            left: lost.left,
        };
        all += store.edit(fleet, &lost.list, edit).await?;
    }
    Ok(all)
}

//! The loop.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use futures_util::{StreamExt, future::LocalBoxFuture, stream::FuturesUnordered};
use tokio::{sync::mpsc, time::MissedTickBehavior};

use super::{
    connection::{Connected, Connection},
    members::Seen,
    pace::UnderWay,
    place::Place,
    question::{Answer, Question},
};
use crate::{
    host::Host,
    store::{self, Error, Target},
};

/// A member that has not been heard of for so long is not counted.
pub const ALIVE: Duration = Duration::from_secs(3);

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
    pub(super) host: H,
    /// What it is to do.
    pub(super) options: Options,
    /// The store.
    pub(super) connection: Connection,
    /// What was seen of this host the last time.
    pub(super) seen: Seen,
    /// The members that are here.
    pub(super) places: Vec<Place<H::Table>>,
    /// The addresses of the store: what the fleet denies must not be in the way to it.
    pub(super) store_at: Vec<IpAddr>,
    /// Rounds on their way.
    pub(super) under_way: UnderWay,
    /// What the present connection was asked.
    pub(super) asked: Asked<H>,
    /// Changes of lists, which somebody waits for also when the connection is gone.
    pub(super) edits: Asked<H>,
}

/// What the agent does when something was answered.
type Then<H> = Box<dyn FnOnce(&mut Agent<H>)>;

/// Questions that are under way, and what is done with each answer.
pub struct Asked<H: Host>(FuturesUnordered<LocalBoxFuture<'static, Then<H>>>);

impl<H: Host + 'static> Asked<H> {
    /// Waits for an answer, and does `then` with it.
    pub fn push<T: 'static>(
        &mut self,
        answer: impl Future<Output = T> + 'static,
        then: impl FnOnce(&mut Agent<H>, T) + 'static,
    ) {
        self.0.push(Box::pin(async move {
            let answer = answer.await;
            Box::new(move |agent: &mut Agent<H>| then(agent, answer)) as Then<H>
        }));
    }
}

impl<H: Host + 'static> Agent<H> {
    /// An agent of `host`, which has not done anything yet.
    ///
    /// # Errors
    /// If the store's address or certificates are not valid.
    pub fn new(options: Options, host: H) -> Result<Self, Error> {
        let target = Target::read(&options.store)?;
        Ok(Self {
            host,
            connection: Connection::new(target, options.say),
            seen: Seen::default(),
            options,
            places: Vec::new(),
            store_at: Vec::new(),
            under_way: UnderWay::default(),
            asked: Asked(FuturesUnordered::new()),
            edits: Asked(FuturesUnordered::new()),
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
                Some(then) = self.asked.0.next() => then(&mut self),
                Some(then) = self.edits.0.next() => then(&mut self),
                Some((question, answer)) = questions.recv() => self.answer(question, answer),
            }
            self.put_lists_in_force().await;
        }
        self.leave().await;
        Ok(())
    }

    async fn tick(&mut self) -> Result<(), String> {
        let now = Instant::now();
        self.find_members(now).await;
        if let Some(connecting) = self.connection.connect(now) {
            self.asked.push(connecting, Self::connected);
        }
        for at in 0..self.places.len() {
            self.scan(at, now)?;
            self.places[at].expire(now);
            if self.connection.store().is_some() {
                self.send(at, now);
                self.beat(at, now);
                self.restore_lists(at, now);
                self.clear_lists(at, now);
            }
        }
        Ok(())
    }

    fn connected(&mut self, connected: Connected) {
        let (store, addresses) = match connected {
            Ok(connected) => connected,
            Err(error) => return self.connection.refused(&error),
        };
        if self.connection.connected(store) {
            // Its rounds are of another form.
            self.places.clear();
        }
        // What waits for the connection before waits in vain: rounds are sent again.
        self.asked.0.clear();
        self.under_way.begin_anew();
        let now = Instant::now();
        // A name that says nothing just now: the store is where it was.
        let has_moved = !addresses.is_empty() && self.store_at != addresses;
        for place in &mut self.places {
            place.begin_anew(now, now + ALIVE);
            place.known.is_pending |= has_moved;
        }
        if has_moved {
            self.store_at = addresses;
        }
        self.seen.next = None;
    }

    /// The store has answered.
    pub(super) fn works(&mut self) {
        if self.connection.works() {
            // It may have taken nobody's heartbeats: who comes back first is not alone because of that.
            let returning = Instant::now() + ALIVE;
            let places = self.places.iter_mut();
            places.for_each(|place| place.returning = returning);
        }
    }

    /// Which of the places is that of the member with this id, if it is still there.
    pub(super) fn at(&self, member: u64) -> Option<usize> {
        let mut places = self.places.iter();
        places.position(|place| place.attached.id == member)
    }
}

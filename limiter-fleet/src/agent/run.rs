//! The agent's main loop.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use futures_util::{StreamExt, future::LocalBoxFuture, stream::FuturesUnordered};
use tokio::sync::mpsc;

use super::{
    connection::{Connected, Connection},
    membership::Membership,
    shared_lists::Answer,
};
use crate::{
    host::Host,
    question::Question,
    store::{self, Error, Target},
};

/// A member without a heartbeat for this time is not counted.
pub const ALIVE: Duration = Duration::from_secs(3);

/// The settings of the agent.
pub struct Options {
    /// The store.
    pub store: store::Options,
    /// Interval of scans and exchanges.
    pub interval: Duration,
    /// Name of this host in the store.
    pub host: String,
    /// Prints a line for people.
    pub say: fn(&str),
}

/// The agent.
pub struct Agent<H: Host> {
    pub(super) host: H,
    pub(super) options: Options,
    pub(super) connection: Connection,
    pub(super) next_search: Instant,
    /// Lines already reported about the last search.
    pub(super) notes: Vec<String>,
    pub(super) memberships: Vec<Membership<H::Table>>,
    /// The addresses of the store. The fleet's deny list must not block them.
    pub(super) store_at: Vec<IpAddr>,
    /// Requests on the present connection.
    pub(super) requests: Requests<H>,
    /// Changes of lists, in the store and on this host. They go on after the connection is lost.
    pub(super) edits: Requests<H>,
}

/// The agent's action after an answer.
type Then<H> = Box<dyn FnOnce(&mut Agent<H>)>;

/// Requests under way, each with its action after the answer.
pub struct Requests<H: Host>(FuturesUnordered<LocalBoxFuture<'static, Then<H>>>);

impl<H: Host + 'static> Requests<H> {
    /// Waits for an answer, then runs `then` with it.
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
    /// Creates an agent of `host`.
    /// Fails if the store's address or certificates are not valid.
    pub fn new(options: Options, host: H) -> Result<Self, Error> {
        let target = Target::read(&options.store)?;
        Ok(Self {
            host,
            connection: Connection::new(target, options.say),
            next_search: Instant::now(),
            notes: Vec::new(),
            options,
            memberships: Vec::new(),
            store_at: Vec::new(),
            requests: Requests(FuturesUnordered::new()),
            edits: Requests(FuturesUnordered::new()),
        })
    }

    /// Runs until `stop`, and answers questions.
    /// Fails if the clock of the host cannot be read.
    pub async fn run(
        mut self,
        mut questions: mpsc::Receiver<(Question, Answer)>,
        stop: impl Future<Output = ()>,
    ) -> Result<(), String> {
        let mut ticks = tokio::time::interval(self.options.interval);
        tokio::pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => break,
                _ = ticks.tick() => {
                    let took = self.tick().await?;
                    // After a long scan, answers have their turn.
                    let interval = self.options.interval;
                    ticks.reset_after(interval.saturating_sub(took).max(interval / 2));
                }
                Some(then) = self.requests.0.next() => then(&mut self),
                Some(then) = self.edits.0.next() => then(&mut self),
                Some((question, answer)) = questions.recv() => self.answer(question, answer),
            }
            self.send_held();
            self.put_lists_in_force();
        }
        Ok(())
    }

    /// Scans the tables, and sends what is due. Returns the time that it took.
    async fn tick(&mut self) -> Result<Duration, String> {
        let now = Instant::now();
        self.find_members(now).await;
        if let Some(connecting) = self.connection.connect(now) {
            self.requests.push(connecting, Self::connected);
        }
        for index in 0..self.memberships.len() {
            self.memberships[index].scan(self.host.now()?, now);
            if self.connection.store.is_some() {
                self.send(index, now);
                self.beat(index, now);
            }
        }
        Ok(now.elapsed())
    }

    fn connected(&mut self, connected: Connected) {
        let (store, addresses) = match connected {
            Ok(connected) => connected,
            Err(error) => return self.connection.refused(&error),
        };
        self.connection.connected(store);
        // Requests on the old connection get no answer. Rounds are sent again.
        self.requests.0.clear();
        let now = Instant::now();
        // If the name cannot be resolved at present, the old addresses stay.
        let has_moved = !addresses.is_empty() && self.store_at != addresses;
        for membership in &mut self.memberships {
            membership.begin_anew(now);
            membership.lists.is_pending |= has_moved;
        }
        if has_moved {
            self.store_at = addresses;
        }
        self.next_search = now;
    }

    /// The index of the membership with this member, if it still exists.
    pub(super) fn index_of(&self, member: u64) -> Option<usize> {
        let mut memberships = self.memberships.iter();
        memberships.position(|membership| membership.id == member)
    }
}

//! The connection to the store: retries until it is made, and reports trouble.

use std::{
    mem::{Discriminant, discriminant},
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::store::{Error, Fault, Store, Target};

/// Time between two attempts to connect.
const AGAIN: Duration = Duration::from_millis(500);

/// Trouble is over when nothing has failed for this time. Until then, no message is repeated.
const QUIET: Duration = Duration::from_secs(3);

pub type Connected = Result<(Store, Vec<IpAddr>), Error>;

pub struct Connection {
    pub target: Arc<Target>,
    pub store: Option<Store>,
    /// Time of the next attempt to connect; `None` during an attempt.
    next_try: Option<Instant>,
    pub why: Option<String>,
    trouble: Option<Trouble>,
    /// The last line about the server's settings.
    warned: Option<String>,
    say: fn(&str),
}

struct Trouble {
    since: Instant,
    /// Time of the last failure.
    last: Instant,
    /// The kinds of errors that were reported.
    reported: Vec<Kind>,
}

/// The kind of an error, with all kinds of faults of each server apart.
type Kind = Vec<Discriminant<Fault>>;

fn kind(error: &Error) -> Kind {
    match error {
        Error::At(_, fault) => vec![discriminant(fault)],
        Error::Servers(errors) => errors.iter().flat_map(kind).collect(),
        _ => Vec::new(),
    }
}

impl Connection {
    pub fn new(target: Arc<Target>, say: fn(&str)) -> Self {
        Self {
            target,
            store: None,
            next_try: Some(Instant::now()),
            why: None,
            trouble: None,
            warned: None,
            say,
        }
    }

    /// The reason why the store does not answer, or another one if it does.
    pub fn why_or(&self, other: &str) -> String {
        self.why.clone().unwrap_or_else(|| other.to_owned())
    }

    pub fn connect(&mut self, now: Instant) -> Option<impl Future<Output = Connected> + use<>> {
        if self.store.is_some() || self.next_try.is_none_or(|next| now < next) {
            return None;
        }
        self.next_try = None;
        let target = Arc::clone(&self.target);
        Some(async move {
            let store = Store::connect(&target).await?;
            let addresses = store.addresses().await;
            Ok((store, addresses))
        })
    }

    pub fn connected(&mut self, store: Store) {
        let warning = store.warning();
        if warning != self.warned {
            warning.iter().for_each(|text| (self.say)(text));
        }
        (self.store, self.warned) = (Some(store), warning);
    }

    pub fn refused(&mut self, error: &Error) {
        self.next_try = Some(Instant::now() + AGAIN);
        self.failed(error);
    }

    pub fn failed(&mut self, error: &Error) {
        let now = Instant::now();
        if error.is_of_the_connection() && self.store.take().is_some() {
            self.next_try = Some(now);
        }
        let trouble = self.trouble.get_or_insert_with(|| Trouble {
            since: now,
            last: now,
            reported: Vec::new(),
        });
        trouble.last = now;
        // One line per kind: after one problem is solved, the next one is reported.
        if !trouble.reported.contains(&kind(error)) {
            trouble.reported.push(kind(error));
            (self.say)(&format!(
                "{error}; until then each host applies the limits alone"
            ));
        }
        self.why = Some(error.to_string());
    }

    /// Notes an answer. Some requests may still be refused: then trouble comes again at once.
    pub fn works(&mut self) {
        self.why = None;
        let is_over = |trouble: &mut Trouble| trouble.last.elapsed() >= QUIET;
        if let Some(trouble) = self.trouble.take_if(is_over) {
            let time = trouble.last.saturating_duration_since(trouble.since);
            (self.say)(&format!(
                "the store at {} answers again, after {:.1} s",
                self.target.at,
                time.as_secs_f64()
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::store::Options;

    /// A user without the right to one kind of request.
    #[test]
    fn repeated_refusal_is_reported_once() {
        static LINES: AtomicU32 = AtomicU32::new(0);
        let target = Target::read(&Options::new("redis://host")).expect("an address");
        let mut connection = Connection::new(target, |_| {
            LINES.fetch_add(1, Ordering::Relaxed);
        });
        for _ in 0..100 {
            let fault = Fault::Forbidden("no".to_owned());
            connection.failed(&Error::At("host".to_owned(), fault));
            assert!(connection.why.is_some());
            connection.works();
            assert!(connection.why.is_none());
        }
        assert_eq!(LINES.load(Ordering::Relaxed), 1);
    }
}

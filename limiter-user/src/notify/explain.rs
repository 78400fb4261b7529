//! Explanations of floods, by a process that keeps the privileges.

use std::{io, time::Duration};

use tokio::time;

use super::event::Event;
use crate::helper::{self, Channel, Deed, Done, Verb};

/// The time for an explanation: ten seconds of traffic, and loading the program twice.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The process that explains floods, until it fails.
pub struct Explainer(Option<Channel>);

impl Explainer {
    /// Starts the process, which inherits the privileges of this one.
    /// Fails if no process can be started.
    pub fn start() -> io::Result<Self> {
        helper::start_deeds(None).map(|channel| Self(Some(channel)))
    }

    /// Adds an explanation to an event, if it is the beginning of a flood. A failure is told in place of the explanation.
    pub async fn explain(&mut self, event: &mut Event) {
        if event.event != "flood" || event.state != "begin" {
            return;
        }
        let deed = Deed {
            verb: Verb::Explain(true),
            interface: event.interface.clone(),
        };
        let done = match &mut self.0 {
            Some(channel) => time::timeout(TIMEOUT, answer(channel, &deed))
                .await
                .ok()
                .flatten(),
            None => None,
        };
        event.explanation = Some(match done {
            Some(Done { text, .. }) => text,
            None => {
                // A late answer would be taken for the next one.
                self.0 = None;
                format!(
                    "no explanation came: type `limiter {}`",
                    deed.words().join(" ")
                )
            }
        });
    }
}

async fn answer(channel: &mut Channel, deed: &Deed) -> Option<Done> {
    channel.send(deed).await.ok()?;
    channel.receive().await.ok().flatten()
}

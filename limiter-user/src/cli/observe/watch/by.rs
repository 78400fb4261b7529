//! `watch --by`: sums of a sample of packets.

use std::time::{Duration, Instant};

use limiter_common::abi::events::EVERY;
use limiter_kernel::ops::watch::Watching;

use super::{CHECK, INTERVAL};
use crate::{
    cli::shared::{answer, note},
    observe::{
        event,
        senders::{Field, Tally},
    },
    show,
};

/// The time between two choices of the sample, unless packets of it are lost. In a flood of made-up sources, more of the
/// reported packets had passed than of the lost ones.
const WINDOW: Duration = Duration::from_millis(200);

/// The wanted table.
pub struct Wanted {
    pub fields: Vec<Field>,
    pub rows: usize,
    pub json: bool,
}

/// A watch whose packets are summed.
pub struct Summing {
    pub watching: Watching,
    tally: Tally,
    begun: Instant,
    lost: u64,
    said_stopped: bool,
}

impl Summing {
    pub fn new(watching: Watching, wanted: &Wanted) -> Self {
        Self {
            watching,
            tally: Tally::new(wanted.fields.clone()),
            begun: Instant::now(),
            lost: 0,
            said_stopped: false,
        }
    }

    /// Sums packets until `stop` is ready, or there is nothing to watch any more.
    pub async fn until(&mut self, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
        let mut interval = tokio::time::interval(INTERVAL);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        tokio::pin!(stop);
        let (mut checked, mut window) = (Instant::now(), Instant::now());
        loop {
            tokio::select! {
                biased;
                () = &mut stop => return Ok(()),
                _ = interval.tick() => {}
            }
            self.take_in()?;
            if window.elapsed() >= WINDOW || self.watching.lost()? != self.lost {
                window = Instant::now();
                self.end_window()?;
            }
            if checked.elapsed() >= CHECK {
                checked = Instant::now();
                if self.watching.renew()? && !self.said_stopped {
                    self.said_stopped = true;
                    note(
                        "this process was stopped for some time; packets in that time are missing",
                    );
                }
                self.watching.check().await?;
            }
        }
    }

    fn take_in(&mut self) -> anyhow::Result<()> {
        while let Some((raw, _)) = self.watching.next_event() {
            let limit = self.watching.limit(raw.slot);
            let event = event::event(&self.watching.interface, limit, &raw)?;
            let numbers = (EVERY + 1) as f64;
            self.tally
                .add(&event, numbers / (f64::from(raw.sample) + 1.0));
        }
        Ok(())
    }

    fn end_window(&mut self) -> anyhow::Result<()> {
        let lost = self.watching.lost()?;
        let of_window = lost.wrapping_sub(self.lost);
        self.lost = lost;
        if let Some(one_in) = self.tally.end_window(of_window) {
            self.watching.sample(one_in);
        }
        Ok(())
    }

    /// Prints the table.
    pub fn print(&mut self, wanted: &Wanted) -> anyhow::Result<()> {
        let seconds = self.begun.elapsed().as_secs_f64();
        self.take_in()?;
        self.end_window()?;
        let interface = &self.watching.interface;
        let senders = self.tally.senders(interface, seconds, wanted.rows);
        answer(wanted.json, &senders, || show::senders::table(&senders))
    }
}

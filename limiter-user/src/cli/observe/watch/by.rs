//! `watch --by`: sums of a sample of packets.

use std::time::Instant;

use limiter_common::abi::events::EVERY;
use limiter_kernel::ops::watch::Watching;

use super::{CHECK, INTERVAL};
use crate::{
    cli::shared::{Windows, answer, note},
    observe::{
        event,
        senders::{Field, Tally},
    },
    show,
};

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
    windows: Windows,
    said_stopped: bool,
}

impl Summing {
    pub fn new(watching: Watching, wanted: &Wanted) -> Self {
        Self {
            watching,
            tally: Tally::new(wanted.fields.clone()),
            begun: Instant::now(),
            windows: Windows::new(Instant::now()),
            said_stopped: false,
        }
    }

    /// Sums packets until `stop` is ready, or there is nothing to watch any more.
    pub async fn until(&mut self, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
        let mut interval = tokio::time::interval(INTERVAL);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        tokio::pin!(stop);
        let mut checked = Instant::now();
        loop {
            tokio::select! {
                biased;
                () = &mut stop => return Ok(()),
                _ = interval.tick() => {}
            }
            self.take_in()?;
            if let Some(lost) = self.windows.end(Instant::now(), self.watching.lost()?) {
                self.choose_sample(lost);
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

    fn choose_sample(&mut self, lost: u64) {
        if let Some(one_in) = self.tally.end_window(lost) {
            self.watching.sample(one_in);
        }
    }

    /// Prints the table.
    pub fn print(&mut self, wanted: &Wanted) -> anyhow::Result<()> {
        let seconds = self.begun.elapsed().as_secs_f64();
        self.take_in()?;
        let lost = self.watching.lost()?;
        let lost = self.windows.end_now(Instant::now(), lost);
        self.choose_sample(lost);
        let interface = &self.watching.interface;
        let senders = self.tally.senders(interface, seconds, wanted.rows);
        answer(wanted.json, &senders, || show::senders::table(&senders))?;
        if let Some(shares) = self.tally.networks(wanted.rows) {
            let fields = wanted.fields.iter().map(|field| match field {
                Field::Source => Field::Network.name(),
                other => other.name(),
            });
            let fields: Vec<_> = fields.collect();
            let [networks, sources] = shares.map(show::senders::percent);
            note(&format!(
                "{interface}: the {0} largest networks sent {networks} of the packets, the {0} largest sources {sources}: `--by {1}` shows the networks",
                wanted.rows,
                fields.join(",")
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;
    use limiter_common::abi::events::{EVENT_BURST, EVENT_COST};

    use super::*;
    use crate::observe::event::Event;

    fn event(is_dropped: bool, source: u32) -> Event {
        Event {
            time: String::new(),
            interface: "eth0".to_owned(),
            source: Some(std::net::Ipv4Addr::from_bits(source).into()),
            source_port: None,
            destination: None,
            destination_port: None,
            protocol: None,
            tcp_flags: None,
            length: 60,
            packets: 1,
            limit: None,
            verdict: if is_dropped { "drop" } else { "pass" },
            reason: "limit",
        }
    }

    /// A second of a flood that comes in bursts of 600 packets, 50 in a second. limiter passes the first 40 of each, and the
    /// program reports what its budget allows: at first, only packets that pass.
    #[test]
    fn share_of_drops_in_a_flood_is_that_of_all_packets() {
        const BURSTS: u32 = 50;
        const PACKETS: u32 = 600;
        const PASSED: u32 = 40;
        let mut rng = Rng::with_seed(7);
        let begun = Instant::now();
        let mut tally = Tally::new(vec![Field::Verdict]);
        let mut windows = Windows::new(begun);
        let (mut one_in, mut lost, mut budget) = (1.0, 0, 0);
        for burst in 1..=BURSTS {
            budget = EVENT_BURST.min(budget + 1_000_000_000 / EVENT_COST / u64::from(BURSTS));
            for number in 0..PACKETS {
                if rng.f64() * one_in >= 1.0 {
                    continue;
                }
                if budget == 0 {
                    lost += 1;
                    continue;
                }
                budget -= 1;
                tally.add(&event(number >= PASSED, number), one_in);
            }
            let ended = windows.end(begun + INTERVAL * burst, lost);
            if let Some(next) = ended.and_then(|lost| tally.end_window(lost)) {
                one_in = next;
            }
        }
        tally.end_window(windows.end_now(begun, lost));
        let total = tally.senders("eth0", 1.0, 9).total;
        let truth = 1.0 - f64::from(PASSED) / f64::from(PACKETS);
        let found = total.dropped;
        assert!((found - truth).abs() < 0.03, "{found} of {truth}");
        let packets = total.packets_per_second;
        let sent = f64::from(BURSTS * PACKETS);
        assert!((0.9 * sent..1.1 * sent).contains(&packets), "{packets}");
    }
}

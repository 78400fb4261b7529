//! A sample of an interface's packets, by a watch of dropped and passed ones.

use std::{
    mem::take,
    time::{Duration, Instant},
};

use limiter_common::{
    abi::events::{EVERY, Event},
    policy::verdict::Reason,
};
use limiter_config::places::Places;
use limiter_kernel::ops::watch::{Filter, Watching};

use crate::{
    cli::shared::{Progress, Windows, about, interruption, note},
    observe::thinning::Thinning,
    plan::{
        capture::Link,
        flood::{Packet, Sample},
    },
    show::units::counted,
};

/// Bytes of each packet.
const SNAP: u32 = 128;
/// Interval between reads of the ring buffer.
const INTERVAL: Duration = Duration::from_millis(20);
/// Interval between checks that there is still something to watch.
const CHECK: Duration = Duration::from_millis(500);

/// A packet of a window, and the packets that it stands for if none were lost.
struct Seen {
    packet: Option<Packet>,
    weight: f64,
    is_dropped: bool,
}

struct Sampling {
    watching: Watching,
    windows: Windows,
    thinning: Thinning,
    window: Vec<Seen>,
    sample: Sample,
    salt: u64,
    places: Places,
}

/// Samples the packets of an attachment for `time`, or until the user interrupts. Also returns the seconds.
pub async fn sample(
    name: &str,
    time: Duration,
    salt: u64,
    places: Places,
) -> anyhow::Result<(Sample, f64)> {
    let stop = interruption()?;
    let filter = Filter {
        passed: true,
        snap: SNAP,
        ..Filter::default()
    };
    let watching = Watching::start(name, filter).await.map_err(about(name))?;
    let begun = Instant::now();
    let mut sampling = Sampling {
        watching,
        windows: Windows::new(begun),
        thinning: Thinning::default(),
        window: Vec::new(),
        sample: Sample::default(),
        salt,
        places,
    };
    let ended = sampling.until(time, begun, stop).await;
    let seconds = begun.elapsed().as_secs_f64();
    sampling.watching.stop();
    let ended = ended.and_then(|()| sampling.take_in());
    let lost = sampling.watching.lost();
    let finished = sampling.watching.finish().await;
    ended?;
    let lost = sampling.windows.end_now(Instant::now(), lost?);
    sampling.end_window(lost);
    finished.map_err(about(name))?;
    Ok((sampling.sample, seconds))
}

impl Sampling {
    async fn until(
        &mut self,
        time: Duration,
        begun: Instant,
        stop: impl Future<Output = ()>,
    ) -> anyhow::Result<()> {
        let progress = Progress::of_time(time.as_secs());
        let mut interval = tokio::time::interval(INTERVAL);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        tokio::pin!(stop);
        let (mut checked, mut said_stopped) = (begun, false);
        while begun.elapsed() < time {
            tokio::select! {
                biased;
                () = &mut stop => break,
                _ = interval.tick() => {}
            }
            self.take_in()?;
            let lost = self.watching.lost()?;
            if let Some(lost) = self.windows.end(Instant::now(), lost) {
                self.end_window(lost);
            }
            let packets = self.sample.packets().len() as u64;
            progress.set(begun.elapsed().as_secs(), counted(packets, "packet"));
            if checked.elapsed() >= CHECK {
                checked = Instant::now();
                if self.watching.renew()? && !said_stopped {
                    said_stopped = true;
                    note(
                        "this process was stopped for some time; packets in that time are missing",
                    );
                }
                self.watching.check().await?;
            }
        }
        Ok(())
    }

    /// Takes in the available packets.
    fn take_in(&mut self) -> anyhow::Result<()> {
        while let Some((event, bytes)) = self.watching.next_event() {
            anyhow::ensure!(
                !bytes.is_empty(),
                "the program on {} copies no packets, because it is of an earlier build, or Linux older than 5.18: `limiter set` or `limiter reload` loads a new one",
                self.watching.interface
            );
            let link = match self.watching.no_ethernet {
                true => Link::Raw,
                false => Link::Ethernet,
            };
            let frame = link.frame(&bytes, event.length.into());
            let Some((packet, _)) = Packet::read(&frame, self.salt, &self.places) else {
                continue;
            };
            let is_limited = !packet.is_control && is_limited(&event);
            let one_in = (EVERY + 1) as f64 / (f64::from(event.sample) + 1.0);
            self.window.push(Seen {
                packet: is_limited.then_some(packet),
                weight: f64::from(event.packets.max(1)) * one_in,
                is_dropped: event.would_drop == 0
                    && Reason::from_number(event.reason).is_some_and(|reason| !reason.passes()),
            });
        }
        Ok(())
    }

    /// Ends a window in which so many packets of the sample were lost: they count as if they were like the others.
    fn end_window(&mut self, lost: u64) {
        let all: f64 = self.window.iter().map(|seen| seen.weight).sum();
        let missing = lost as f64 * self.thinning.one_in;
        let factor = if all > 0.0 { 1.0 + missing / all } else { 1.0 };
        let reported = self.window.len() as u64;
        for seen in take(&mut self.window) {
            let weight = seen.weight * factor;
            if seen.is_dropped {
                self.sample.dropped += weight;
            }
            match seen.packet {
                Some(packet) => self.sample.add(packet, weight),
                None => self.sample.add_exempt(weight),
            }
        }
        if let Some(one_in) = self.thinning.next(reported, lost) {
            self.watching.sample(one_in);
        }
    }
}

/// True unless lists or an open connection have decided about the packet before any limit.
fn is_limited(event: &Event) -> bool {
    let exempt = [
        Reason::Allowed,
        Reason::Established,
        Reason::Deny,
        Reason::Ban,
    ];
    let reason = Reason::from_number(event.reason);
    reason.is_none_or(|reason| !exempt.contains(&reason))
}

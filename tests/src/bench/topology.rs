//! Describes how the measured processors share cores and caches, which decides the meaning of figures of two
//! processors.

use std::{
    fs,
    hint::black_box,
    sync::{
        Barrier,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::Instant,
};

use nix::Result;
use serde::Serialize;

use crate::{
    machine::{processor_time, stay_on},
    sample::Sample,
};

/// The description by the system, and measurements.
#[derive(Debug, Serialize)]
pub struct Topology {
    /// The measured processors. A case of one processor uses the first.
    pub processors: Vec<usize>,
    /// Processors that share the core of each, according to the system.
    pub same_core: Vec<String>,
    /// Caches of the first processor: level, kind, size, and processors that share it.
    pub caches: Vec<String>,
    /// True if the description is by a hypervisor, which may hide shared cores and caches.
    pub hypervisor: bool,
    /// Speed of each of two processors while both compute, as a multiple of its speed alone: about 1 on two cores,
    /// about 0.5 on one core.
    pub pace: Option<f64>,
    /// Nanoseconds until a cache line that one processor has written reaches the other.
    pub handover: Option<f64>,
}

impl Topology {
    /// Describes the first two of these processors.
    pub fn of(cpus: &[usize]) -> Self {
        let processors: Vec<usize> = cpus.iter().copied().take(2).collect();
        let say = |cpu: &usize| line(*cpu, "topology/thread_siblings_list");
        let two = <[usize; 2]>::try_from(processors.as_slice()).ok();
        Self {
            same_core: processors.iter().map(say).collect(),
            caches: processors.first().copied().map_or_else(Vec::new, caches),
            hypervisor: has_hypervisor(),
            pace: two.and_then(|two| pace(two).ok()),
            handover: two.and_then(handover),
            processors,
        }
    }

    pub fn lines(&self) -> String {
        let Self {
            processors,
            same_core,
            caches,
            hypervisor,
            pace,
            handover,
        } = self;
        let each: Vec<String> = processors.iter().zip(same_core).map(core_of).collect();
        let reporter = if *hypervisor {
            "by the hypervisor"
        } else {
            "by the system"
        };
        let mut lines = format!(
            "processors, {reporter}: {}; caches: {}\n",
            each.join(", "),
            caches.join(", ")
        );
        if let (Some(pace), Some(handover)) = (pace, handover) {
            lines += &format!(
                "two at once: each computes {pace:.2} times as fast as alone; \
                 transfer of a cache line between them: {handover:.0} ns\n"
            );
        }
        lines
    }
}

fn core_of((cpu, core): (&usize, &String)) -> String {
    match core.parse::<usize>() {
        Ok(alone) if *cpu == alone => format!("{cpu} has a core of its own"),
        _ => format!("{cpu} shares the core of {core}"),
    }
}

fn line(cpu: usize, file: &str) -> String {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/{file}");
    fs::read_to_string(path).map_or_else(|_| "unknown".into(), |text| text.trim().to_owned())
}

fn caches(cpu: usize) -> Vec<String> {
    let folder = format!("/sys/devices/system/cpu/cpu{cpu}/cache");
    let present = |index: &u32| fs::exists(format!("{folder}/index{index}")).unwrap_or(false);
    (0..)
        .take_while(present)
        .map(|index| {
            let say = |file: &str| line(cpu, &format!("cache/index{index}/{file}"));
            let [level, kind, size] = ["level", "type", "size"].map(say);
            format!("L{level} {kind} {size} of {}", say("shared_cpu_list"))
        })
        .collect()
}

fn has_hypervisor() -> bool {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    cpus.lines()
        .filter(|line| line.starts_with("flags"))
        .any(|line| line.split(' ').any(|flag| flag == "hypervisor"))
}

const TRIES: usize = 5;

/// Measures `pace` in processor time, so that other processes do not matter.
fn pace([first, second]: [usize; 2]) -> Result<f64> {
    // Runs on another thread, so that this thread keeps its processors.
    let alone = on_both(&[first])?;
    Ok(alone / on_both(&[first, second])?)
}

/// Median nanoseconds of processor time for the same work on each of these at the same time.
fn on_both(cpus: &[usize]) -> Result<f64> {
    let barrier = Barrier::new(cpus.len());
    let work_on = |cpu: usize| {
        let ready = stay_on(cpu);
        let mut tries = Vec::new();
        for _ in 0..TRIES {
            barrier.wait();
            let before = processor_time();
            work();
            tries.push((before, processor_time()));
        }
        ready?;
        let times = tries
            .into_iter()
            .map(|(before, after)| Ok(after? - before?));
        times.collect::<Result<Vec<f64>>>()
    };
    let times: Vec<f64> = thread::scope(|scope| {
        let running: Vec<_> = cpus
            .iter()
            .map(|&cpu| scope.spawn(move || work_on(cpu)))
            .collect();
        let join = |thread: thread::ScopedJoinHandle<'_, Result<Vec<f64>>>| match thread.join() {
            Ok(times) => times,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        running.into_iter().map(join).collect::<Result<Vec<_>>>()
    })?
    .concat();
    Ok(Sample::of(times).map_or(0.0, |sample| sample.median))
}

/// Computes for about 20 ms: independent multiplications, for which two threads of one core wait for each other.
fn work() {
    const STEPS: u32 = 10_000_000;
    let mut words = black_box([3_u64, 5, 7, 11]);
    for _ in 0..STEPS {
        for word in &mut words {
            *word = black_box(word.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        }
    }
    black_box(words);
}

/// Median over batches of round trips; none if a processor is not available.
fn handover([first, second]: [usize; 2]) -> Option<f64> {
    const BATCHES: u32 = 41;
    const TIMES: u32 = 500;
    let word = AtomicU32::new(0);
    thread::scope(|scope| {
        let answering = scope.spawn(|| {
            let ready = stay_on(second);
            for turn in 0..BATCHES * TIMES {
                wait_for(&word, 2 * turn + 1);
                word.store(2 * turn + 2, Ordering::Release);
            }
            ready
        });
        let asking = scope.spawn(|| {
            let ready = stay_on(first);
            let mut batches = Vec::new();
            for batch in 0..BATCHES {
                let began = Instant::now();
                for turn in batch * TIMES..(batch + 1) * TIMES {
                    word.store(2 * turn + 1, Ordering::Release);
                    wait_for(&word, 2 * turn + 2);
                }
                batches.push(began.elapsed().as_secs_f64() * 1e9 / f64::from(2 * TIMES));
            }
            ready.map(|()| batches)
        });
        let batches = asking.join().ok()?.ok()?;
        answering.join().ok()?.ok()?;
        Sample::of(batches).map(|sample| sample.median)
    })
}

fn wait_for(word: &AtomicU32, value: u32) {
    // Does not use a spin hint: its pause is longer than a line's transfer.
    while word.load(Ordering::Acquire) != value {
        black_box(());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_of_names_the_processors_that_share_a_core() {
        let core_of = |cpu, list: &str| core_of((&cpu, &list.to_owned()));
        assert_eq!(core_of(1, "1"), "1 has a core of its own");
        assert_eq!(core_of(1, "0-1"), "1 shares the core of 0-1");
    }

    #[test]
    fn topology_of_one_processor_has_no_pace_or_handover() {
        let topology = Topology::of(&[0]);
        assert_eq!(topology.processors, [0]);
        assert_eq!(topology.pace, None);
        assert_eq!(topology.handover, None);
        assert_eq!(topology.lines().lines().count(), 1);
    }
}

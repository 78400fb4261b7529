//! Packets for the program in the kernel: structured frames, then damaged. The verdicts are compared with those of
//! another parser (etherparse) and a few lines of our own.

mod configurations;
mod generate;
mod oracle;

use std::cell::RefCell;

use arbitrary::Unstructured;
use limiter_common::{policy::verdict::Reason, table::key::SourceKey};
use limiter_user::{
    config::{Settings, file},
    plan::{
        capture::link::Frame,
        replay::{Compiled, Engine as Replay, FRAME_MOST},
    },
};

use crate::engine::{Engine, Kernel};
use configurations::{CONFIGURATIONS, Configuration};
pub use generate::frame;
use oracle::{Expected, expect};

/// Time of all packets: nothing is refilled between two of them.
const NOW: u64 = 1_000_000_000_000;

/// A configuration and its program.
struct Loaded {
    configuration: &'static Configuration,
    settings: Settings,
    compiled: Compiled,
    kernel: Kernel,
}

/// Counts of comparisons.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Comparisons by the reason's number.
    pub reasons: [u64; Reason::ALL.len()],
    /// Comparisons with an exact expectation.
    pub exactly: u64,
    /// Comparisons in which the other parser refused a part that the program does not read.
    pub roughly: u64,
}

/// Number of configurations.
pub const CONFIGURATIONS_LENGTH: usize = CONFIGURATIONS.len();

/// The first byte selects the configuration; the others make a few frames.
pub(super) fn run(bytes: &[u8]) {
    let mut u = Unstructured::new(bytes);
    let number = usize::from(u.arbitrary::<u8>().unwrap()) % CONFIGURATIONS.len();
    let mut tally = Tally::default();
    for _ in 0..4 {
        let frame = frame(&mut u).unwrap();
        offer(number, &frame, &mut tally);
        if u.is_empty() {
            break;
        }
    }
}

/// Compares the verdicts on a frame under one of the configurations. Panics if they are not as expected. Returns the
/// first reason, and the charged buckets.
pub fn offer(configuration: usize, frame: &[u8], tally: &mut Tally) -> (Reason, Vec<SourceKey>) {
    thread_local! {
        static LOADED: RefCell<Vec<Option<Loaded>>> = const { RefCell::new(Vec::new()) };
    }
    LOADED.with_borrow_mut(|loaded| {
        loaded.resize_with(CONFIGURATIONS.len(), || None);
        let one = loaded[configuration]
            .get_or_insert_with(|| Loaded::new(&CONFIGURATIONS[configuration]));
        one.offer(frame, tally)
    })
}

impl Loaded {
    fn new(configuration: &'static Configuration) -> Self {
        let text = format!(
            "max_sources = 256\nnew_sources = \"none\"\n{}",
            configuration.text
        );
        let settings = file::parse(&text, ".".as_ref()).unwrap().settings;
        Self {
            configuration,
            compiled: Compiled::new(&settings).unwrap(),
            kernel: Kernel::of(&settings),
            settings,
        }
    }

    /// Offers the frame twice at the same time: the first one finds full buckets, the second one empty ones.
    fn offer(&mut self, frame: &[u8], tally: &mut Tally) -> (Reason, Vec<SourceKey>) {
        let expected = expect(frame, self.configuration);
        let about = || format!("{}\n{expected:?}\n{frame:02x?}", self.configuration.text);
        let _ = self.kernel.tables.sets.forget_all();
        let mut model = Replay::model(&self.compiled, NOW);
        let mut said = Vec::new();
        for _ in 0..2 {
            let reason = self.kernel.offer(frame, NOW);
            let length = frame.len() as u64;
            let bytes = &frame[..frame.len().min(FRAME_MOST)];
            let by_model = model.offer(&Frame { bytes, length }, NOW).unwrap();
            assert_eq!(reason, by_model, "kernel and model\n{}", about());
            tally.reasons[reason as usize] += 1;
            said.push((reason, self.entries()));
        }
        match &expected {
            Expected::Exactly(outcome) => {
                tally.exactly += 1;
                let [first, second] = outcome.reasons.map(|reason| self.in_force(reason));
                let mut buckets = outcome.buckets.clone();
                buckets.sort_by_key(place);
                let found: Vec<_> = said[0].1.iter().map(|(key, ..)| *key).collect();
                assert_eq!((said[0].0, found), (first, buckets.clone()), "{}", about());
                let found: Vec<_> = said[1].1.iter().map(|(key, ..)| *key).collect();
                assert_eq!((said[1].0, found), (second, buckets), "{}", about());
                for (key, _, refused) in &said[1].1 {
                    let is_over = outcome.refused_by == Some(key.slot());
                    assert_eq!(*refused, u64::from(is_over), "{key:?}\n{}", about());
                }
            }
            Expected::From(source, reasons) => {
                tally.roughly += 1;
                let mut possible = reasons.iter().map(|reason| self.in_force(*reason));
                assert!(
                    possible.any(|reason| reason == said[0].0),
                    "{:?}\n{}",
                    said[0].0,
                    about()
                );
                for (key, ..) in &said[0].1 {
                    let limit = &self.configuration.limits[key.slot() as usize];
                    let wanted = limit.key(key.slot(), *source, 0).address;
                    assert_eq!(key.address, wanted, "{}", about());
                }
            }
        }
        let (reason, entries) = said.swap_remove(0);
        (reason, entries.into_iter().map(|(key, ..)| key).collect())
    }

    /// Keys in the table, with packets passed and refused.
    fn entries(&self) -> Vec<(SourceKey, u64, u64)> {
        let sources = self.kernel.tables.sets.sources();
        let mut entries: Vec<_> = sources
            .map(|(key, source)| (key, source.passed, source.refused))
            .collect();
        entries.sort_by_key(|(key, ..)| place(key));
        entries
    }

    fn in_force(&self, reason: Reason) -> Reason {
        let shadow = self.settings.shadow;
        match reason {
            Reason::Malformed if shadow => Reason::MalformedWouldDrop,
            reason if shadow && !reason.passes() => Reason::WouldDrop,
            reason => reason,
        }
    }
}

fn place(key: &SourceKey) -> (u32, [u64; 2]) {
    (key.scope, key.address)
}

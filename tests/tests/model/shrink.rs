//! Shortens a failing sequence.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use super::session::{Session, kind_of};

/// Maximum time for shortening.
const PATIENCE: Duration = Duration::from_secs(180);

/// Runs these steps, and detaches everything. Returns the failure, if any. `steps` then ends with the failing step.
pub fn replay(steps: &mut Vec<String>) -> Option<String> {
    let mut session = Session::new();
    for number in 0..steps.len() {
        if let Err(why) = session.step(&steps[number]) {
            steps.truncate(number + 1);
            return Some(why);
        }
    }
    session.finish(steps).err()
}

/// The shortest failing sequence found, and its failure; none if the sequence does not fail again.
pub fn shrink(mut steps: Vec<String>) -> Option<(Vec<String>, String)> {
    let start = Instant::now();
    let mut why = None;
    let mut fails = |steps: &mut Vec<String>| {
        let reason = replay(steps);
        let failed = reason.is_some();
        why = reason.or(why.take());
        failed
    };
    if !fails(&mut steps) {
        return None;
    }
    // Drops all steps of a kind at once, which removes most steps in few runs.
    let kinds: BTreeSet<String> = steps.iter().map(|line| kind_of(line)).collect();
    for gone in kinds.iter().rev() {
        let mut fewer = steps.clone();
        fewer.retain(|line| kind_of(line) != *gone);
        if fewer.len() < steps.len() && start.elapsed() < PATIENCE && fails(&mut fewer) {
            steps = fewer;
        }
    }
    let mut size = steps.len().div_ceil(2);
    while size > 0 && start.elapsed() < PATIENCE {
        let before = steps.len();
        let mut end = steps.len();
        while end > 0 && start.elapsed() < PATIENCE {
            let from = end.saturating_sub(size);
            let mut fewer = steps.clone();
            fewer.drain(from..end);
            if fails(&mut fewer) {
                steps = fewer;
            }
            end = from.min(steps.len());
        }
        // A step that was needed before may be superfluous now.
        if size > 1 || steps.len() == before {
            size /= 2;
        }
    }
    Some((steps, why?))
}

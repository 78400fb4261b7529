//! Ends of trials that nobody has kept. No process runs then, so that readers of a history find them out.

use std::time::SystemTime;

use humantime::parse_rfc3339_weak;
use limiter_kernel::sys::clock;

use crate::observe::{Entry, TRIAL_END as END};

/// The entries, and between them the ends of trials that nobody has kept before `now`. `on_trial`: a trial still runs.
pub fn with_ends(entries: Vec<Entry>, now: SystemTime, on_trial: bool) -> Vec<Entry> {
    let mut all = Vec::with_capacity(entries.len());
    let mut running: Option<Entry> = None;
    for entry in entries {
        // Their time is a moment after the decision.
        if ["keep", "revert"].contains(&&*entry.event) {
            running = None;
        }
        let time = parse_rfc3339_weak(&entry.time).unwrap_or(now);
        all.extend(ended(&mut running, time));
        match &*entry.event {
            "attach" | "trial" => {
                running = Some(entry.clone()).filter(|entry| entry.trial_until.is_some());
            }
            // A change for good ends the trial if it makes both settings equal.
            "change" if entry.trial_until.is_none() => running = None,
            "detach" | "fall-back" => running = None,
            _ => {}
        }
        all.push(entry);
    }
    if !on_trial {
        all.extend(ended(&mut running, now));
    }
    all
}

/// The end of the running trial, if it is over at `time`.
fn ended(running: &mut Option<Entry>, time: SystemTime) -> Option<Entry> {
    let moment = |text: &str| parse_rfc3339_weak(text).ok();
    let begin = running.take_if(|begin| {
        let until = begin.trial_until.as_deref().and_then(moment);
        until.is_none_or(|until| until <= time)
    })?;
    let end = begin.trial_until.clone()?;
    // A restart of the machine within the trial has removed it, and everything else.
    let booted = clock::booted().ok()?;
    if moment(&begin.time)? < booted && booted < moment(&end)? {
        return None;
    }
    let mut details = vec![match &*begin.event {
        "attach" => "nobody kept the trial: nothing is limited".to_owned(),
        _ => "nobody kept the trial: the settings before it are in force again".to_owned(),
    }];
    if begin.event == "trial" {
        let changes = begin.details.iter();
        let changes = changes.filter(|change| !change.contains(&end));
        details.extend(changes.map(|change| format!("undone: {change}")));
    }
    Some(Entry {
        time: end,
        event: END.to_owned(),
        details,
        trial_until: None,
        ..begin
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// An entry so many seconds from now, and its trial's end.
    fn entry(event: &str, time: i64, until: Option<i64>) -> Entry {
        Entry {
            time: shown(time),
            event: event.to_owned(),
            user: "alice".to_owned(),
            uid: 1_000,
            command: "set".to_owned(),
            details: vec![
                "rate 10/s -> 20/s".to_owned(),
                format!("ON TRIAL: undone at {}", shown(until.unwrap_or(0))),
            ],
            trial_until: until.map(shown),
        }
    }

    fn shown(seconds: i64) -> String {
        let distance = Duration::from_secs(seconds.unsigned_abs());
        let now = SystemTime::now();
        clock::shown(if seconds < 0 {
            now - distance
        } else {
            now + distance
        })
    }

    fn events(entries: Vec<Entry>, on_trial: bool) -> Vec<String> {
        let all = with_ends(entries, SystemTime::now(), on_trial);
        all.into_iter().map(|entry| entry.event).collect()
    }

    #[test]
    fn trial_that_nobody_kept_has_an_end_at_its_time() {
        let begin = entry("trial", -50, Some(-40));
        let later = entry("ban", -10, None);
        let all = with_ends(vec![begin, later], SystemTime::now(), false);
        assert_eq!(all.len(), 3);
        let end = &all[1];
        assert_eq!(
            (&*end.event, &end.time, &*end.user),
            (END, &shown(-40), "alice")
        );
        let words = "nobody kept the trial: the settings before it are in force again";
        assert_eq!(end.details, [words, "undone: rate 10/s -> 20/s"]);
    }

    #[test]
    fn ends_are_those_of_trials_that_were_not_decided_before() {
        let trial = || entry("trial", -50, Some(-40));
        for (others, on_trial, wanted) in [
            (vec![], false, &["trial", END][..]),
            // The machine slept, or the clock was set: the kernel says that it runs.
            (vec![], true, &["trial"]),
            (vec![entry("keep", -39, None)], false, &["trial", "keep"]),
            (
                vec![entry("revert", -45, None)],
                false,
                &["trial", "revert"],
            ),
            (
                vec![entry("detach", -45, None)],
                false,
                &["trial", "detach"],
            ),
            (
                vec![entry("detach", -20, None)],
                false,
                &["trial", END, "detach"],
            ),
            (
                vec![entry("change", -45, None)],
                false,
                &["trial", "change"],
            ),
            (
                vec![entry("change", -45, Some(-40))],
                false,
                &["trial", "change", END],
            ),
            (
                vec![entry("trial", -30, Some(60))],
                true,
                &["trial", END, "trial"],
            ),
        ] {
            let entries = [vec![trial()], others].concat();
            assert_eq!(events(entries, on_trial), wanted);
        }
        let attach = entry("attach", -50, Some(-40));
        let all = with_ends(vec![attach], SystemTime::now(), false);
        assert_eq!(
            all[1].details,
            ["nobody kept the trial: nothing is limited"]
        );
        assert_eq!(events(vec![entry("attach", -50, None)], false), ["attach"]);
        assert_eq!(
            events(vec![entry("trial", -50, Some(60))], false),
            ["trial"]
        );
    }

    #[test]
    fn restart_of_the_machine_within_a_trial_is_no_end_of_it() {
        let booted = clock::booted().unwrap();
        let age = SystemTime::now().duration_since(booted).unwrap();
        let age = i64::try_from(age.as_secs()).unwrap();
        let trial = entry("trial", -age - 90, Some(-age + 90));
        assert_eq!(events(vec![trial], false), ["trial"]);
        let earlier = entry("trial", -age - 90, Some(-age - 30));
        assert_eq!(events(vec![earlier], false), ["trial", END]);
    }
}

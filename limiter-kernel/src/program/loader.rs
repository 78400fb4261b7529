//! aya's loader without the kernel's types.

use std::thread;

use aya::EbpfLoader;
use landlock::{AccessFs, Ruleset, RulesetAttr as _, RulesetStatus};

/// Makes a loader that does not have the kernel's types. Nothing in limiter's programs is relocated against them.
///
/// `EbpfLoader::new` of aya 0.14 always parses them, which takes 40 ms and 4,300 page faults, and `btf(None)` only
/// forgets them afterwards.
pub fn without_kernel_types<'a>() -> EbpfLoader<'a> {
    let mut loader = in_blind_thread().map_or_else(EbpfLoader::new, |(loader, _)| loader);
    // For a kernel without Landlock, where the thread has read them.
    loader.btf(None);
    loader
}

/// Makes a loader in a thread that cannot read files, so that aya goes on without types. Landlock restricts a thread, not
/// its process. The status tells whether the kernel has Landlock. Returns `None` if no thread can be started.
fn in_blind_thread<'a>() -> Option<(EbpfLoader<'a>, Option<RulesetStatus>)> {
    let blind = || {
        let rules = Ruleset::default().handle_access(AccessFs::ReadFile);
        let restricted = rules
            .and_then(Ruleset::create)
            .and_then(|rules| rules.restrict_self());
        let status = restricted.ok().map(|restricted| restricted.ruleset);
        (EbpfLoader::new(), status)
    };
    let started = thread::Builder::new().spawn(blind).ok()?;
    started.join().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_the_kernel_are_not_read() {
        let (loader, status) = in_blind_thread().expect("no thread");
        if status.is_none_or(|status| status == RulesetStatus::NotEnforced) {
            return eprintln!("this kernel has no Landlock");
        }
        let printed = format!("{loader:?}");
        assert!(
            printed.starts_with("EbpfLoader { btf: None,"),
            "{}",
            &printed[..100]
        );
    }
}

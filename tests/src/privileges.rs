//! Work that is done with fewer privileges than the test has.

use std::thread;

use caps::{CapSet, Capability};

/// Does the work in a thread that has `CAP_BPF` and `CAP_NET_ADMIN`, and no other capabilities.
///
/// # Panics
/// Where the work does, or the thread cannot give up the others.
pub fn with_two_capabilities<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let limited = || {
        keep_two();
        work()
    };
    thread::scope(|scope| scope.spawn(limited).join().unwrap())
}

/// Gives up this thread's other capabilities.
fn keep_two() {
    let two = [Capability::CAP_BPF, Capability::CAP_NET_ADMIN].into();
    for set in [CapSet::Effective, CapSet::Permitted] {
        caps::set(None, set, &two).unwrap();
    }
}

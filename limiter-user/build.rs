//! Links a development build of the command at a fixed address: the tests start it thousands of times, and its 150,000
//! relocations cost 500 page faults at each start. Optimized builds stay relocatable.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var("PROFILE").is_ok_and(|profile| profile == "debug") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}

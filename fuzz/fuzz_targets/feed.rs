#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (limiter_tests::fuzz::Target::named("feed").run)(bytes));

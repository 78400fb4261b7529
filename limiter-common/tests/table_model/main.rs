//! The table stays consistent in every order of concurrent steps by CPUs, on x86-64 and on arm64.
//!
//! arm64 allows more orders. The code is the program's own, over a few words of memory.

mod cpu;
mod explore;
mod memory;
mod scene;
mod table;
mod world;

mod changing;
mod clearing;
mod coming;
mod leaving;
mod overflow;
mod wide;

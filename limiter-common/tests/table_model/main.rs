//! What CPUs do to the table at the same time, in every order: on x86-64, and on arm64, where more
//! orders are possible. The code is the program's own, over a few words of memory.

mod cpu;
mod explore;
mod memory;
mod scene;
mod world;

mod changing;
mod clearing;
mod coming;
mod displaced;
mod leaving;
mod wide;

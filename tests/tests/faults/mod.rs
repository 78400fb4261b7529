//! After any failure or `kill -9`, limiter limits by the old or the new settings, or is cleanly absent.
//!
//! The next command removes all leftovers. It works, or reports why not.

mod bans;
mod case;
mod clocks;
mod files;
mod killed;
mod locks;
mod mounts;
mod readers;
mod refused;
mod vanishing;
mod writers;

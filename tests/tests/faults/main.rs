//! After any failure or `kill -9`, limiter still limits by the old or the new settings, or is cleanly absent.
//!
//! The next command clears up what is left over; it works, or says why not.

mod case;
mod clocks;
mod files;
mod killed;
mod locks;
mod memory;
mod readers;
mod refused;
mod scrapes;
mod vanishing;
mod watching;
mod writers;

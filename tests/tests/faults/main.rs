//! Whatever fails, and whenever a command is killed: limiter still limits, by the old settings or the new ones, or is
//! cleanly absent; after the next command nothing is left over; and that works, or says why not.

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

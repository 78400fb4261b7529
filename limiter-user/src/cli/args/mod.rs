//! What can be written on the command line.

mod fleet;
mod interfaces;
mod limiting;
mod lists;
mod looking;
mod trying;
mod values;

use clap::{Parser, Subcommand};

pub use fleet::Agent;
pub use interfaces::{On, OnOne};
pub use limiting::{
    Attach, ConfigVerb, Detach, Engine, Exemption, Keep, Lasting, Limiting, Reload, Replay, Set,
    Switch,
};
pub use lists::{
    GivenPrefixes, ListAdd, ListEdit, ListShow, ListVerb, TierAdd, TierEdit, TierShow, TierVerb,
};
pub use looking::{Check, Export, Log, Reset, Status, Top, Watch};
pub use trying::{Demo, Doctor, Learn, Man};
pub use values::{Change, FleetOrNone};

/// A packet rate limiter in the Linux kernel: one exact token bucket for each source address,
/// enforced at the network driver by XDP.
#[derive(Debug, Parser)]
#[command(name = "limiter", version, about, long_about = None, max_term_width = 100)]
#[command(
    after_help = "Exit status: 0 done, or unchanged because it was so already; 1 it failed, with --strict also where \
                  it was so already; 2 the command line is wrong."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
    /// Fail where there is nothing to change, and on warnings about a file (exit status 1), for scripts
    #[arg(long, global = true)]
    pub strict: bool,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Limit what comes in on an interface; stays in the kernel until `detach`
    Attach(Attach),
    /// Keep what is on trial (`--try`): it is no longer undone by itself
    Keep(Keep),
    /// Stop limiting, and leave nothing behind
    Detach(Detach),
    /// Show what is attached, how, and what it has done
    Status(Status),
    /// Change rate, burst, shadow and other things while traffic flows
    Set(Set),
    /// Put a configuration file in force again, after it was changed
    Reload(Reload),
    /// Sources that pass before any limit
    Allow {
        /// What to do with the list
        #[command(subcommand)]
        verb: ListVerb,
    },
    /// Sources that are dropped before any limit
    Deny {
        /// What to do with the list
        #[command(subcommand)]
        verb: ListVerb,
    },
    /// Lists of other names, which limits match on
    Tier {
        /// What to do with the list
        #[command(subcommand)]
        verb: TierVerb,
    },
    /// Check a configuration file, or show what is in force as one
    Config {
        /// Which of the two
        #[command(subcommand)]
        verb: ConfigVerb,
    },
    /// Show one source: tokens, retry-after, passed, dropped
    Check(Check),
    /// Forget a source, or all: its bucket is full again
    Reset(Reset),
    /// Show who is sending and who is dropped
    Top(Top),
    /// Show drops as they happen, and what would be dropped but for shadow, until interrupted
    Watch(Watch),
    /// Print what the program decides about each packet, until interrupted (slow: for debugging)
    Log(Log),
    /// Serve metrics for Prometheus, and a page for people, until interrupted; changes nothing
    Export(Export),
    /// Show what limits would have done with a capture
    Replay(Replay),
    /// Watch without limiting, then propose limits as a configuration file
    Learn(Learn),
    /// Show what would go wrong with `attach`, before it does; changes nothing
    Doctor(Doctor),
    /// Share limits and lists with the other hosts of a fleet, through a store, until interrupted
    Agent(Agent),
    /// Two hosts in network namespaces, a flood, and what gets through
    Demo(Demo),
    /// Print shell completions
    Completions {
        /// For which shell
        shell: clap_complete::Shell,
    },
    /// Print a manual page (roff), or write all of them
    Man(Man),
}

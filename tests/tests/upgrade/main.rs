//! A version with another layout takes over what an earlier one has attached, both as they were built: buckets,
//! counters and lists are kept, and nothing passes unlimited; and the earlier one leaves alone what came later.

mod commands;
mod flood;
mod killed;

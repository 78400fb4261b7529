//! Code that the kernel side and the user side of `limiter` share: the policy, the table of buckets, their arithmetic,
//! and the types that cross the boundary between the two sides.
//!
//! Depends on nothing, so that the same source compiles for BPF and for the host.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), no_std)]

pub mod abi;
pub mod arithmetic;
pub mod policy;
pub mod table;

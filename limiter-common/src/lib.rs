//! Code that the kernel program and user space share: policy, table of buckets, arithmetic, and the types that cross
//! the kernel boundary. Its only dependency is network-types, so that it compiles for BPF and for the host.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), no_std)]

pub mod abi;
pub mod arithmetic;
pub mod index;
pub mod open;
pub mod pod;
pub mod policy;
pub mod table;

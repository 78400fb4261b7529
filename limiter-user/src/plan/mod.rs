//! The commands to run before a limit drops packets: `doctor`, `learn`, `explain`, `replay`. Also the captures that they read.

pub mod capture;
pub mod doctor;
pub mod explain;
pub mod flood;
pub mod learn;
pub mod replay;
pub mod session;

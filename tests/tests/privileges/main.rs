//! Who may do what, and with how little limiter does its work.

mod agent;
mod local_users;
mod modes;
mod sandbox;
mod unprivileged;

//! limiter works with few privileges, and other local users cannot interfere with it.

mod agent;
mod local_users;
mod modes;
mod sandbox;
mod unprivileged;
mod viewers;

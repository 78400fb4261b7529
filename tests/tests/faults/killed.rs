//! `kill -9` of a command, before a system call that changes something, leaves the old or the new settings.

use limiter_tests::{
    need_kernel,
    steps::{End, Fault},
};

use super::case::Verb;

fn kill_at_each_step(verb: Verb) {
    verb.at_each_step(
        |_| Fault::Kill,
        |_, stopped, call, _| assert_eq!(stopped.end, End::Killed(call.name.clone())),
    );
}

#[test]
fn killed_attach_leaves_no_limits_or_all_of_them() {
    need_kernel!();
    kill_at_each_step(Verb::Attach);
}

#[test]
fn killed_detach_leaves_all_limits_or_none() {
    need_kernel!();
    kill_at_each_step(Verb::Detach);
}

#[test]
fn killed_change_leaves_the_old_settings_or_the_trial() {
    need_kernel!();
    kill_at_each_step(Verb::Change);
}

#[test]
fn killed_replacement_of_a_list_leaves_the_old_lists_or_the_new_ones() {
    need_kernel!();
    kill_at_each_step(Verb::List);
}

#[test]
fn killed_revert_leaves_the_trial_or_the_old_settings() {
    need_kernel!();
    kill_at_each_step(Verb::Revert);
}

#[test]
fn killed_ban_leaves_the_source_banned_or_not() {
    need_kernel!();
    kill_at_each_step(Verb::Ban);
}

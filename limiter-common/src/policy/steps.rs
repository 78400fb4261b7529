//! The policy's steps. The kernel program exports each as a global function, with a stack frame of its own, so that the
//! verifier checks it once, for any number of limits.

use super::{Environment, Evaluation, attempt::Attempt};
use crate::table::key::SourceKey;

/// The steps of the policy, as the policy calls them. In user space, they are the functions themselves: see
/// [`super::Direct`].
pub trait Steps: Environment {
    /// [`super::bucket::refresh`].
    fn refresh_bucket(&self, key: &SourceKey, index: u32);
    /// [`super::fast::charge_again`].
    fn charge_again(&self, key: &SourceKey, length: u64) -> Attempt;
    /// [`super::fast::add`].
    fn add_source(&self, key: &SourceKey, length: u64, budget: u32) -> Attempt;
    /// [`super::fast::replace`].
    fn replace_source(&self, key: &SourceKey, length: u64, budget: u32) -> Attempt;

    /// [`super::step::Step::confirm`].
    fn confirm(&self, evaluation: &mut Evaluation, index: u32);
    /// [`super::step::Step::is_certain`].
    fn is_certain(&self, evaluation: &mut Evaluation, index: u32) -> bool;
    /// [`super::step::Step::pair`].
    fn pair(&self, evaluation: &mut Evaluation, index: u32);
    /// [`super::step::Step::stretch`].
    fn stretch(&self, evaluation: &mut Evaluation, index: u32);
    /// [`super::step::Step::check`].
    fn check(&self, evaluation: &mut Evaluation, index: u32) -> Attempt;
    /// [`super::step::Step::lacks_bucket`].
    fn lacks_bucket(&self, evaluation: &mut Evaluation, index: u32) -> bool;
    /// [`super::step::Step::charge`].
    fn charge(&self, evaluation: &mut Evaluation, index: u32) -> Attempt;
    /// [`super::step::Step::refresh`].
    fn refresh(&self, evaluation: &mut Evaluation, index: u32);
    /// [`super::step::Step::add`].
    fn add(&self, evaluation: &mut Evaluation, index: u32) -> Attempt;
    /// [`super::step::Step::replace`].
    fn replace(&self, evaluation: &mut Evaluation, index: u32, budget: u32) -> Attempt;
    /// [`super::step::Step::contended`].
    fn contended(&self, evaluation: &mut Evaluation, index: u32) -> Attempt;
    /// [`super::step::Step::refund`].
    fn refund(&self, evaluation: &mut Evaluation, index: u32) -> bool;
    /// [`super::step::Step::uncount`].
    fn uncount(&self, evaluation: &mut Evaluation, index: u32);
    /// [`super::step::Step::hold`].
    fn hold(&self, evaluation: &mut Evaluation, index: u32) -> bool;
    /// [`super::step::Step::count_over`].
    fn count_over(&self, evaluation: &mut Evaluation, index: u32);
    /// [`super::step::Step::is_full`].
    fn is_full(&self, evaluation: &mut Evaluation, index: u32) -> bool;
}

//! The policy's steps in user space: plain calls.

use super::{
    Environment, Evaluation, Steps,
    attempt::{Attempt, Code},
    bucket, fast,
    step::Step,
};
use crate::table::key::SourceKey;

/// An environment in which the steps are the functions of the policy themselves.
pub trait Direct: Environment {}

macro_rules! steps {
    ($($step:ident($($argument:ident: $type:ty)?) -> $result:ty;)+) => {$(
        #[inline(always)]
        fn $step(&self, evaluation: &mut Evaluation, index: u32 $(, $argument: $type)?) -> $result {
            match Step::new(self, evaluation, index) {
                Some(step) => step.$step($($argument)?),
                None => Code::from_code(0),
            }
        }
    )+};
}

impl<E: Direct> Steps for E {
    #[inline(always)]
    fn refresh_bucket(&self, key: &SourceKey, index: u32) {
        bucket::refresh(self, key, index);
    }

    #[inline(always)]
    fn charge_again(&self, key: &SourceKey, length: u64) -> Attempt {
        fast::charge_again(self, key, length)
    }

    #[inline(always)]
    fn add_source(&self, key: &SourceKey, length: u64, budget: u32) -> Attempt {
        fast::add(self, key, length, budget)
    }

    #[inline(always)]
    fn replace_source(&self, key: &SourceKey, length: u64, budget: u32) -> Attempt {
        fast::replace(self, key, length, budget)
    }

    steps! {
        confirm() -> ();
        is_certain() -> bool;
        pair() -> ();
        stretch() -> ();
        check() -> Attempt;
        lacks_bucket() -> bool;
        charge() -> Attempt;
        refresh() -> ();
        add() -> Attempt;
        replace(budget: u32) -> Attempt;
        contended() -> Attempt;
        refund() -> bool;
        uncount() -> ();
        hold() -> bool;
        count_over() -> ();
        is_full() -> bool;
    }
}

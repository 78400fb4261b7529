//! The constants of the program, as the policy reads them.

use limiter_common::{abi::rules::Limit, policy::Constants};

use super::View;

macro_rules! flags {
    ($($name:ident),+) => {$(
        fn $name(&self) -> bool {
            self.0.config.$name != 0
        }
    )+};
}

impl<'a> Constants for View<'a> {
    type Limit = &'a Limit;

    fn limit(&self, index: u32) -> Option<&'a Limit> {
        let limits = &self.0.config.limits[..self.0.config.limits_length as usize];
        limits.get(index as usize)
    }

    fn limits_length(&self) -> u32 {
        self.0.config.limits_length
    }

    fn index_of(&self, slot: u32) -> Option<u32> {
        self.0.config.indices.get(slot as usize).copied()
    }

    fn room(&self) -> u32 {
        self.0.config.room
    }

    flags! { shadow, malformed_passes, control, transport }
}

//! Flattens prefixes within each other into ranges.

/// Ranges that do not overlap, made of prefixes in their order. Each begins with an address and ends before the next one;
/// neighbours have different values.
#[derive(Debug)]
pub struct Flat<A> {
    ranges: Vec<(A, u32)>,
    /// The prefixes around the next address, the widest first: last address, value.
    around: Vec<(A, u32)>,
}

impl<A> Default for Flat<A> {
    fn default() -> Self {
        Self {
            ranges: Vec::new(),
            around: Vec::new(),
        }
    }
}

impl<A: Copy + Ord> Flat<A> {
    /// Adds a prefix. A prefix comes before those within it.
    pub fn add(&mut self, first: A, last: A, value: u32, after: impl Fn(A) -> Option<A>) {
        self.leave(|end| end < first, after);
        self.begin(first, value);
        self.around.push((last, value));
    }

    /// The ranges of all prefixes.
    pub fn end(mut self, after: impl Fn(A) -> Option<A>) -> Vec<(A, u32)> {
        self.leave(|_| true, after);
        self.ranges
    }

    /// Ends the prefixes whose last address is one of these. The addresses behind belong to the prefix around them.
    fn leave(&mut self, is_over: impl Fn(A) -> bool, after: impl Fn(A) -> Option<A>) {
        while let Some((last, _)) = self.around.pop_if(|(last, _)| is_over(*last)) {
            let value = self.around.last().map_or(0, |(_, value)| *value);
            if let Some(next) = after(last) {
                self.begin(next, value);
            }
        }
    }

    /// Begins a range. Another one that begins at the same address has no addresses.
    fn begin(&mut self, first: A, value: u32) {
        self.ranges.pop_if(|(begin, _)| *begin == first);
        let before = self.ranges.last().map_or(0, |(_, value)| *value);
        if before != value {
            self.ranges.push((first, value));
        }
    }
}

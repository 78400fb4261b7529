//! Flattens prefixes within each other into ranges.

/// Takes ranges in order.
pub trait Ranges<A> {
    /// Adds a range: its first address, and its value.
    fn add(&mut self, first: A, value: u32);
}

/// Makes ranges that do not overlap of prefixes in their order. Each begins with an address and ends before the next one;
/// neighbours have different values.
#[derive(Debug)]
pub struct Flat<A, R> {
    ranges: R,
    /// The value of the last range in `ranges`.
    value: u32,
    /// The range behind it. Another one may begin at the same address.
    next: Option<(A, u32)>,
    /// The prefixes around the next address, the widest first: last address, value.
    around: Vec<(A, u32)>,
}

impl<A, R: Default> Default for Flat<A, R> {
    fn default() -> Self {
        Self {
            ranges: R::default(),
            value: 0,
            next: None,
            around: Vec::new(),
        }
    }
}

impl<A: Copy + Ord, R: Ranges<A>> Flat<A, R> {
    /// Adds a prefix. A prefix comes before those within it.
    pub fn add(&mut self, first: A, last: A, value: u32, after: impl Fn(A) -> Option<A>) {
        self.leave(|end| end < first, after);
        self.begin(first, value);
        self.around.push((last, value));
    }

    /// The ranges of all prefixes.
    pub fn end(mut self, after: impl Fn(A) -> Option<A>) -> R {
        self.leave(|_| true, after);
        self.put_next();
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
        match self.next {
            Some((begin, _)) if begin == first => self.next = None,
            _ => self.put_next(),
        }
        if self.value != value {
            self.next = Some((first, value));
        }
    }

    fn put_next(&mut self) {
        if let Some((first, value)) = self.next.take() {
            self.ranges.add(first, value);
            self.value = value;
        }
    }
}

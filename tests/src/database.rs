//! Databases in MaxMind's format, made node by node.

/// A branch of a search tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branch {
    /// No network.
    Nothing,
    /// Another node, by its number.
    Node(u32),
    /// Networks in China: the first record.
    China,
    /// Networks of the other record.
    Other,
}

/// A search tree of both families: two branches for each node. And its second record.
#[derive(Clone, Debug, Default)]
pub struct Tree(Vec<[Branch; 2]>, Vec<u8>);

impl Tree {
    /// A tree whose levels each have one node: `levels` nodes, and two to the power of `levels` networks.
    pub fn shared(levels: u32) -> Self {
        let next = |level| match level + 1 == levels {
            true => Branch::China,
            false => Branch::Node(level + 1),
        };
        let nodes = (0..levels).map(|level| [next(level); 2]);
        Self(nodes.collect(), Vec::new())
    }

    /// The tree with another second record, as [`map`] and the functions below it make one.
    pub fn with_other(mut self, record: Vec<u8>) -> Self {
        self.1 = record;
        self
    }

    /// Makes the prefix of `bits` bits of `address` lead to `end`. Returns the last branch that it replaces.
    pub fn lead(&mut self, address: u128, bits: u32, end: Branch) -> Branch {
        if self.0.is_empty() {
            self.0.push([Branch::Nothing; 2]);
        }
        let mut node = 0;
        for bit in 0..bits {
            let side = usize::from(address >> (127 - bit) & 1 == 1);
            if bit + 1 == bits {
                return std::mem::replace(&mut self.0[node][side], end);
            }
            let next = match self.0[node][side] {
                Branch::Node(next) => next as usize,
                _ => self.0.len(),
            };
            if next == self.0.len() {
                self.0[node][side] = Branch::Node(u32::try_from(next).unwrap());
                self.0.push([Branch::Nothing; 2]);
            }
            node = next;
        }
        panic!("no bits")
    }

    /// The file.
    pub fn bytes(&self) -> Vec<u8> {
        let nodes = u32::try_from(self.0.len()).unwrap();
        let china = map(&[entry("country", &map(&[entry("iso_code", &text("CN"))]))]);
        let other = nodes + 16 + u32::try_from(china.len()).unwrap();
        let mut bytes = Vec::new();
        for branch in self.0.iter().flatten() {
            let number = match branch {
                Branch::Nothing => nodes,
                Branch::Node(node) => *node,
                Branch::China => nodes + 16,
                Branch::Other => other,
            };
            bytes.extend(&number.to_be_bytes()[1..]);
        }
        bytes.extend([0; 16]);
        bytes.extend(china);
        bytes.extend(&self.1);
        bytes.extend(b"\xab\xcd\xefMaxMind.com");
        bytes.extend(map(&[
            entry("node_count", &number(nodes)),
            entry("record_size", &small(24)),
            entry("ip_version", &small(6)),
            entry("database_type", &text("Test-Country")),
            // An empty array: type 11.
            entry("languages", &[0, 4]),
            entry("binary_format_major_version", &small(2)),
            entry("binary_format_minor_version", &small(0)),
            // 64 bits: type 9.
            entry("build_epoch", &[1, 2, 1]),
            entry("description", &map(&[])),
        ]));
        bytes
    }
}

/// Type 2: text of less than 29 bytes.
pub fn text(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).unwrap();
    [&[2 << 5 | length], text.as_bytes()].concat()
}

/// A number of up to 16 bytes of a type above 7: 8 has a sign, 9 has 64 bits, 10 has 128.
pub fn long(kind: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u8::try_from(bytes.len()).unwrap();
    [&[length, kind - 7], bytes].concat()
}

/// Type 6: a number of four bytes.
pub fn number(number: u32) -> Vec<u8> {
    [&[6 << 5 | 4], number.to_be_bytes().as_slice()].concat()
}

/// Type 5: a number of one byte, of 16 bits in the format.
pub fn small(number: u8) -> [u8; 2] {
    [5 << 5 | 1, number]
}

/// A field of a [`map`].
pub fn entry(key: &str, value: &[u8]) -> Vec<u8> {
    [text(key).as_slice(), value].concat()
}

/// Type 7: a map.
pub fn map(entries: &[Vec<u8>]) -> Vec<u8> {
    let length = u8::try_from(entries.len()).unwrap();
    [vec![7 << 5 | length], entries.concat()].concat()
}

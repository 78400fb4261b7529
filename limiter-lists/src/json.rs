//! JSON documents: walking through them without keeping them.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
};

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::address;

/// The most different places of a document. Keys may be data.
pub const MOST: usize = 10_000;

/// The longest name of a place, in bytes. Longer ones are not told apart.
const LONGEST: usize = 500;

/// The places of documents, by number: keys, and `[]` for all elements of an array, as in `prefixes[].ip_prefix`. An object
/// whose keys are addresses is like an array, and `{}` stands for its keys.
#[derive(Debug)]
pub struct Tree(Vec<Node>);

#[derive(Debug, Default)]
struct Node {
    path: String,
    elements: Option<usize>,
    keys: HashMap<String, usize>,
    names: Option<usize>,
}

/// A step of a path.
#[derive(Debug)]
enum Step<'p> {
    Key(&'p str),
    Each,
    Names,
}

/// The steps of a path, as in `a.*.b[]`.
fn steps(path: &str) -> impl Iterator<Item = Step<'_>> {
    path.split('.').flat_map(|part| {
        let end = part.find(['[', '{']).unwrap_or(part.len());
        let (key, marks) = part.split_at(end);
        let key = match key {
            "" => None,
            "*" => Some(Step::Each),
            key => Some(Step::Key(key)),
        };
        let marks = marks.split_inclusive([']', '}']);
        let marks = marks.map(|mark| match mark {
            "[]" => Step::Each,
            "{}" => Step::Names,
            other => Step::Key(other),
        });
        key.into_iter().chain(marks)
    })
}

/// A value that is no object or array.
#[derive(Debug)]
pub enum Leaf<'l> {
    /// A string.
    Text(&'l str),
    /// A number, true, false or null.
    Other,
}

/// The number of the place that stands for all places beyond the bounds.
pub const BEYOND: usize = 1;

impl Tree {
    /// A tree with the document alone.
    pub fn new() -> Self {
        let beyond = Node {
            path: "…".to_owned(),
            ..Node::default()
        };
        Self(vec![Node::default(), beyond])
    }

    /// The path of a place.
    pub fn path(&self, place: usize) -> &str {
        &self.0[place].path
    }

    /// The places that a path means. `*` and `[]` stand for all elements of an array and all values of an object.
    pub fn places(&self, path: &str) -> BTreeSet<usize> {
        let mut places = BTreeSet::from([0]);
        for step in steps(path) {
            let nodes = places.iter().map(|place| &self.0[*place]);
            places = nodes
                .flat_map(|node| match step {
                    Step::Key(key) => Vec::from_iter(node.keys.get(key).copied()),
                    Step::Each => node.keys.values().copied().chain(node.elements).collect(),
                    Step::Names => Vec::from_iter(node.names),
                })
                .collect();
        }
        places
    }

    /// The place with this path, whose keys may have dots.
    pub fn place(&self, path: &str) -> Option<usize> {
        self.0.iter().position(|node| node.path == path)
    }

    /// The number of places so far.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Calls `leaf` with each value of a document that is no object or array, and its place.
    pub fn walk(
        &mut self,
        document: &str,
        leaf: &mut dyn FnMut(usize, Leaf),
    ) -> serde_json::Result<()> {
        let mut document = serde_json::Deserializer::from_str(document);
        Walk {
            tree: self,
            place: 0,
            leaf,
        }
        .deserialize(&mut document)?;
        document.end()
    }

    fn element(&mut self, parent: usize) -> usize {
        match self.0[parent].elements {
            Some(place) => place,
            None => {
                let path = format!("{}[]", self.0[parent].path);
                let place = self.add(parent, path);
                self.0[parent].elements = Some(place);
                place
            }
        }
    }

    fn names(&mut self, parent: usize) -> usize {
        match self.0[parent].names {
            Some(place) => place,
            None => {
                let path = format!("{}{{}}", self.0[parent].path);
                let place = self.add(parent, path);
                self.0[parent].names = Some(place);
                place
            }
        }
    }

    fn key(&mut self, parent: usize, key: &str) -> usize {
        match self.0[parent].keys.get(key) {
            Some(place) => *place,
            None => {
                let path = match self.0[parent].path.as_str() {
                    "" => key.to_owned(),
                    path => format!("{path}.{key}"),
                };
                let place = self.add(parent, path);
                if place != BEYOND {
                    self.0[parent].keys.insert(key.to_owned(), place);
                }
                place
            }
        }
    }

    fn add(&mut self, parent: usize, path: String) -> usize {
        if parent == BEYOND || self.0.len() >= MOST || path.len() > LONGEST {
            return BEYOND;
        }
        self.0.push(Node {
            path,
            ..Node::default()
        });
        self.0.len() - 1
    }
}

struct Walk<'w, 'f> {
    tree: &'w mut Tree,
    place: usize,
    leaf: &'w mut (dyn FnMut(usize, Leaf) + 'f),
}

impl Walk<'_, '_> {
    fn below(&mut self, place: usize) -> Walk<'_, '_> {
        Walk {
            tree: self.tree,
            place,
            leaf: self.leaf,
        }
    }

    fn other<E>(self) -> Result<(), E> {
        (self.leaf)(self.place, Leaf::Other);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_, '_> {
    type Value = ();

    fn expecting(&self, text: &mut fmt::Formatter) -> fmt::Result {
        text.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            let is_address = address::read(&key).is_ok();
            let names = match is_address {
                true => Some(self.tree.names(self.place)),
                false => self.tree.0[self.place].names,
            };
            if let Some(names) = names {
                (self.leaf)(names, Leaf::Text(&key));
            }
            let place = match is_address {
                true => self.tree.element(self.place),
                false => self.tree.key(self.place, &key),
            };
            map.next_value_seed(self.below(place))?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut array: A) -> Result<(), A::Error> {
        let place = self.tree.element(self.place);
        while array.next_element_seed(self.below(place))?.is_some() {}
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        (self.leaf)(self.place, Leaf::Text(text));
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        self.other()
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        self.other()
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        self.other()
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        self.other()
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.other()
    }
}

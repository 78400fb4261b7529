//! JSON documents: walking through them without keeping them.

use std::{collections::HashMap, fmt};

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// The most different places of a document. Keys may be data.
const MOST: usize = 10_000;

/// The longest name of a place, in bytes. Longer ones are not told apart.
const LONGEST: usize = 500;

/// The places of documents, by number: keys, and `[]` for all elements of an array, as in `prefixes[].ip_prefix`.
#[derive(Debug)]
pub struct Tree(Vec<Node>);

#[derive(Debug, Default)]
struct Node {
    path: String,
    elements: Option<usize>,
    keys: HashMap<String, usize>,
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
const BEYOND: usize = 1;

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
            let place = self.tree.key(self.place, &key);
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

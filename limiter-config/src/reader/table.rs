//! The table of a struct's settings: `keys!` makes the struct, its defaults, its reading and its printing of one line
//! for each key.

use super::{
    keys::{Keys, Known},
    print::{self, Field},
    section::Section,
    values::Setting,
};

/// A struct whose fields are the values of a table's keys. [`keys!`](crate::keys) implements it.
pub trait Keyed: Default {
    /// The keys, in the order of the fields.
    const KNOWN: &'static [Known];
    /// The keys with the name and the place of their table.
    const KEYS: &'static Keys;

    /// Reads the keys that the section has. Other fields stay.
    fn read_keys(&mut self, section: &mut Section);

    /// All values. Those of `default` need not be printed.
    fn values(&self, default: &Self) -> Vec<Shown>;

    /// The table within a line.
    fn in_line(&self) -> String {
        let values = self.values(&Self::default()).into_iter();
        print::table(values.map(Field::from))
    }
}

/// A value to be shown.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Its key.
    pub known: &'static Known,
    /// The value as in a file; `None`: a file need not have it.
    pub written: Option<String>,
    /// The value in words.
    pub words: String,
}

impl Shown {
    /// Shows a value. `is_changed`: it is not the default.
    pub fn new(known: &'static Known, value: &impl Setting, is_changed: bool) -> Self {
        let is_written = is_changed || known.required || known.shown;
        Self {
            known,
            written: is_written.then(|| value.written()).flatten(),
            words: value.words(),
        }
    }
}

impl From<Shown> for Field {
    fn from(shown: Shown) -> Self {
        (shown.known.key, shown.written)
    }
}

/// Reads the table at `key`.
pub fn read_table<T: Keyed>(section: &mut Section, key: &str) -> Option<T> {
    let mut inner = section.inner(key, T::KEYS)?;
    let mut table = T::default();
    table.read_keys(&mut inner);
    Some(table)
}

/// Defines a struct by the lines of its keys. In parentheses behind its name are the table's name in messages, and the
/// place in the file. A line has:
///
/// - the help, as a doc comment. It documents the field too. `#[serde(…)]` may follow
/// - the field, and in parentheses the key, if it is not called like the field
/// - the type, behind `as` the type that reads and prints it if that is another one, and behind `=` the default if it is not
///   that of the type
/// - `required`, `shown` or `fixed` ([`Known`](crate::reader::Known))
/// - the advice about a value of a wrong type, unless the type has its own
///
/// Fields that are no keys follow under `fields`.
#[macro_export]
macro_rules! keys {
    (@key $field:ident) => { stringify!($field) };
    (@key $field:ident $key:literal) => { $key };
    (@value $type:ty) => { $type };
    (@value $type:ty, $value:ty) => { $value };
    (@default) => { Default::default() };
    (@default $default:expr) => { $default };
    (
        $(#[$meta:meta])*
        $visible:vis struct $name:ident($title:expr, $place:expr) {
            $(
                $(#[doc = $help:literal])+
                $(#[serde $serde:tt])?
                $field:ident $(($key:literal))?: $type:ty $(as $value:ty)? $(= $default:expr)?
                    $(, $mark:ident)* $(, $advice:literal)?;
            )*
        }
        $(fields {
            $($(#[$attribute:meta])* $other:ident: $other_type:ty $(= $other_default:expr)?;)*
        })?
    ) => {
        $(#[$meta])*
        $visible struct $name {
            $($(#[doc = $help])+ $(#[serde $serde])? pub $field: $type,)*
            $($($(#[$attribute])* pub $other: $other_type,)*)?
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    $($field: $crate::keys!(@default $($default)?),)*
                    $($($other: $crate::keys!(@default $($other_default)?),)*)?
                }
            }
        }

        #[allow(clippy::useless_conversion)]
        impl $crate::reader::Keyed for $name {
            const KNOWN: &'static [$crate::reader::Known] = &[$({
                #[allow(unused_mut)]
                let mut known = $crate::reader::Known::new(
                    $crate::keys!(@key $field $($key)?),
                    concat!($($help),+),
                    concat!($($advice)?),
                );
                $(known.$mark = true;)*
                known
            }),*];
            const KEYS: &'static $crate::reader::Keys = &$crate::reader::Keys {
                table: $title,
                place: $place,
                groups: &[Self::KNOWN],
            };

            fn read_keys(&mut self, section: &mut $crate::reader::Section) {
                $(
                    let key = $crate::keys!(@key $field $($key)?);
                    let value: Option<$crate::keys!(@value $type $(, $value)?)> =
                        $crate::reader::Setting::read(section, key);
                    if let Some(value) = value {
                        self.$field = value.into();
                    }
                )*
            }

            fn values(&self, default: &Self) -> Vec<$crate::reader::Shown> {
                let mut known = Self::KNOWN.iter();
                let mut values = Vec::new();
                $(
                    let value: $crate::keys!(@value $type $(, $value)?) = self.$field.clone().into();
                    let is_changed = self.$field != default.$field;
                    values.extend(known.next().map(|known| $crate::reader::Shown::new(known, &value, is_changed)));
                )*
                values
            }
        }

        impl $crate::reader::Setting for $name {
            fn read(section: &mut $crate::reader::Section, key: &str) -> Option<Self> {
                $crate::reader::read_table(section, key)
            }

            fn written(&self) -> Option<String> {
                Some($crate::reader::Keyed::in_line(self))
            }

            fn words(&self) -> String {
                $crate::reader::Keyed::in_line(self)
            }
        }
    };
}

//! Groups of options: the rows of a struct, and its values.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

use crate::OptionRow;

/// A struct with options of one section; [`options!`](crate::options) implements it.
pub trait OptionGroup: Default {
    const SECTION: &'static str;
    /// The section's text in the reference. If a section has several groups, the text of the first one is used.
    const HELP: &'static str;
    const ROWS: &'static [OptionRow];

    /// Sets the options that these values of the section contain. The values have passed the checks of their rows.
    ///
    /// Errors: The key whose value does not fit its row.
    fn with(self, values: &Map<String, Value>) -> Result<Self, &'static str>;

    /// Every option with its value.
    fn values(&self) -> Vec<OptionValue>;
}

/// One option of a struct, with its value.
#[derive(Debug, Clone)]
pub struct OptionValue {
    pub row: &'static OptionRow,
    pub value: Value,
    /// The value of a decimal number, because JSON cannot express all of them (NaN).
    pub decimal: Option<f64>,
}

/// The rows of a group, without its type.
#[derive(Debug, Clone, Copy)]
pub struct RowGroup {
    pub section: &'static str,
    pub help: &'static str,
    pub rows: &'static [OptionRow],
}

impl RowGroup {
    #[must_use]
    pub const fn of<T: OptionGroup>() -> Self {
        Self {
            section: T::SECTION,
            help: T::HELP.trim_ascii(),
            rows: T::ROWS,
        }
    }
}

/// The options that are set, by section and key. Each value has passed the check of its row.
#[derive(Clone, Default)]
pub struct CheckedValues(BTreeMap<String, Map<String, Value>>);

/// Shows only names: a value may be a secret.
impl fmt::Debug for CheckedValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self
            .0
            .iter()
            .map(|(section, values)| (section, values.keys()));
        f.debug_map().entries(keys).finish()
    }
}

/// A value that fits its row but not its struct: row and type of the option disagree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("[{section}] {key}: the value does not fit its option")]
pub struct OptionMisfit {
    pub section: String,
    pub key: &'static str,
}

impl CheckedValues {
    pub fn set(&mut self, section: &str, key: &str, value: Value) {
        let section = self.0.entry(section.to_owned()).or_default();
        section.insert(key.to_owned(), value);
    }

    /// Reads the options of a group.
    pub fn read<T: OptionGroup>(&self) -> Result<T, OptionMisfit> {
        self.read_onto(T::SECTION, T::default())
    }

    /// Reads the options of a group from another section, with other defaults.
    pub fn read_onto<T: OptionGroup>(&self, section: &str, defaults: T) -> Result<T, OptionMisfit> {
        let Some(values) = self.0.get(section) else {
            return Ok(defaults);
        };
        defaults.with(values).map_err(|key| OptionMisfit {
            section: section.to_owned(),
            key,
        })
    }
}

/// Declares options: a struct, its defaults, and an [`OptionGroup`]. See the [crate's documentation](crate).
///
/// Fields in `extra { ... }` are not options: they keep their defaults until they are assigned.
#[macro_export]
macro_rules! options {
    (
        $(#[doc = $about:literal])+
        $(#[derive($($derive:ident),* $(,)?)])?
        $(#[serde($($serde:tt)*)])?
        $vis:vis struct $name:ident in $section:literal {
            $(
                $(#[doc = $help:literal])+
                $key_vis:vis $key:ident: $type:ty = $default:expr $(, $property:ident: $value:expr)* ;
            )*
        }
        $(extra { $($(#[$field_attr:meta])* $field_vis:vis $field:ident: $field_type:ty = $field_default:expr;)* })?
    ) => {
        $(#[doc = $about])+
        $(#[derive($($derive),*)])?
        $(#[serde($($serde)*)])?
        $vis struct $name {
            $($(#[doc = $help])+ $key_vis $key: $type,)*
            $($($(#[$field_attr])* $field_vis $field: $field_type,)*)?
        }

        impl ::core::default::Default for $name {
            fn default() -> Self {
                Self {
                    $($key: $default,)*
                    $($($field: $field_default,)*)?
                }
            }
        }

        impl $crate::OptionGroup for $name {
            const SECTION: &'static str = $section;
            const HELP: &'static str = concat!($($about),+);
            const ROWS: &'static [$crate::OptionRow] = {
                #[allow(unused_imports, reason = "a group need not use all names")]
                use $crate::{
                    OptionEffect::{self, *},
                    OptionKind::{self, *},
                    text::*,
                };
                &[$($crate::OptionRow {
                    $($property: $value,)*
                    ..$crate::OptionRow::new::<$type>(
                        $section,
                        (stringify!($key), concat!(stringify!($key), "_file")),
                        concat!($($help),+),
                        || {
                            let default: $type = $default;
                            $crate::OptionType::write(&default)
                        },
                    )
                }),*]
            };

            #[allow(unused_mut, reason = "a group may have no options")]
            fn with(
                mut self,
                values: &$crate::Map<::std::string::String, $crate::Json>,
            ) -> ::core::result::Result<Self, &'static str> {
                $(
                    if let Some(value) = values.get(stringify!($key)) {
                        self.$key = $crate::OptionType::read(value).ok_or(stringify!($key))?;
                    }
                )*
                Ok(self)
            }

            fn values(&self) -> ::std::vec::Vec<$crate::OptionValue> {
                let values = [$((
                    $crate::OptionType::write(&self.$key),
                    $crate::OptionType::decimal(&self.$key),
                )),*];
                Self::ROWS
                    .iter()
                    .zip(values)
                    .map(|(row, (value, decimal))| $crate::OptionValue { row, value, decimal })
                    .collect()
            }
        }
    };
}

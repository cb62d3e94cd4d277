//! The types of option values.

use std::fmt;
use std::net::{AddrParseError, IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use berth_model::{CpuSet, PciAddress};
use serde_json::Value;

use crate::OptionKind;
use crate::text::{
    CPU_SET, IP_ADDRESS, LISTEN, NO_LISTENER, PATH, PATHS, PCI_ADDRESSES, TABLES, TEXT, TEXTS,
};

/// A type of option values.
pub trait OptionType: Sized {
    /// The kind of options of this type, unless the option declares another one.
    const KIND: OptionKind;

    /// Converts a checked value; `None` if it has another kind.
    fn read(value: &Value) -> Option<Self>;

    /// The value's form in a file; null without a value.
    fn write(&self) -> Value;

    /// The value as a decimal number, if it is one.
    fn decimal(&self) -> Option<f64> {
        None
    }
}

/// A type of list elements.
pub trait ListItem: Sized {
    /// The kind of lists of this type.
    const LIST: OptionKind;

    fn read_item(value: &Value) -> Option<Self>;

    fn write_item(&self) -> Value;
}

impl<T: ListItem> OptionType for Vec<T> {
    const KIND: OptionKind = T::LIST;

    fn read(value: &Value) -> Option<Self> {
        value.as_array()?.iter().map(T::read_item).collect()
    }

    fn write(&self) -> Value {
        self.iter().map(T::write_item).collect()
    }
}

impl<T: OptionType> OptionType for Option<T> {
    const KIND: OptionKind = T::KIND;

    fn read(value: &Value) -> Option<Self> {
        T::read(value).map(Some)
    }

    fn write(&self) -> Value {
        self.as_ref().map_or(Value::Null, T::write)
    }

    fn decimal(&self) -> Option<f64> {
        self.as_ref().and_then(T::decimal)
    }
}

/// Implements option types that are written as texts, by their `FromStr` and `Display`: `text_type!(TYPE, KIND)`, or
/// `text_type!(TYPE, KIND, LIST)` for types that lists have, too.
#[macro_export]
macro_rules! text_type {
    ($type:ty, $kind:expr) => {
        impl $crate::OptionType for $type {
            const KIND: $crate::OptionKind = $kind;

            fn read(value: &$crate::Json) -> Option<Self> {
                value.as_str()?.parse().ok()
            }

            fn write(&self) -> $crate::Json {
                $crate::Json::from(self.to_string())
            }
        }
    };
    ($type:ty, $kind:expr, $list:expr) => {
        $crate::text_type!($type, $kind);

        impl $crate::ListItem for $type {
            const LIST: $crate::OptionKind = $list;

            fn read_item(value: &$crate::Json) -> Option<Self> {
                $crate::OptionType::read(value)
            }

            fn write_item(&self) -> $crate::Json {
                $crate::OptionType::write(self)
            }
        }
    };
}

text_type!(String, TEXT, TEXTS);
text_type!(IpAddr, IP_ADDRESS);
text_type!(PciAddress, TEXT, PCI_ADDRESSES);
text_type!(CpuSet, CPU_SET);

/// The value of a `listen` option: an address, or `none` for no listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ListenAddress(Option<SocketAddr>);

impl ListenAddress {
    /// No listener.
    pub const NONE: Self = Self(None);

    /// A listener at this address.
    #[must_use]
    pub const fn at(address: SocketAddr) -> Self {
        Self(Some(address))
    }

    /// The address; `None` for no listener.
    #[must_use]
    pub const fn address(self) -> Option<SocketAddr> {
        self.0
    }
}

impl FromStr for ListenAddress {
    type Err = AddrParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            NO_LISTENER => Ok(Self::NONE),
            text => text.parse().map(Self::at),
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str(NO_LISTENER),
            Some(address) => address.fmt(f),
        }
    }
}

/// No listener is no default value: the sample file shows the option's example instead.
impl OptionType for ListenAddress {
    const KIND: OptionKind = LISTEN;

    fn read(value: &Value) -> Option<Self> {
        value.as_str()?.parse().ok()
    }

    fn write(&self) -> Value {
        self.0
            .map_or(Value::Null, |address| Value::from(address.to_string()))
    }
}

impl OptionType for PathBuf {
    const KIND: OptionKind = PATH;

    fn read(value: &Value) -> Option<Self> {
        value.as_str().map(Self::from)
    }

    fn write(&self) -> Value {
        Value::from(self.display().to_string())
    }
}

impl ListItem for PathBuf {
    const LIST: OptionKind = PATHS;

    fn read_item(value: &Value) -> Option<Self> {
        Self::read(value)
    }

    fn write_item(&self) -> Value {
        self.write()
    }
}

/// A list element in its written form.
impl ListItem for Value {
    const LIST: OptionKind = TABLES;

    fn read_item(value: &Value) -> Option<Self> {
        Some(value.clone())
    }

    fn write_item(&self) -> Value {
        self.clone()
    }
}

impl OptionType for bool {
    const KIND: OptionKind = OptionKind::Flag;

    fn read(value: &Value) -> Option<Self> {
        value.as_bool()
    }

    fn write(&self) -> Value {
        Value::from(*self)
    }
}

impl OptionType for f64 {
    const KIND: OptionKind = OptionKind::Number(f64::MIN, f64::MAX);

    fn read(value: &Value) -> Option<Self> {
        value.as_f64()
    }

    fn write(&self) -> Value {
        Value::from(*self)
    }

    fn decimal(&self) -> Option<f64> {
        Some(*self)
    }
}

macro_rules! whole_numbers {
    ($($type:ty: $low:expr, $high:expr;)+) => {$(
        impl OptionType for $type {
            const KIND: OptionKind = OptionKind::Integer($low, $high);

            fn read(value: &Value) -> Option<Self> {
                value.as_i64()?.try_into().ok()
            }

            fn write(&self) -> Value {
                Value::from(*self)
            }
        }
    )+};
}

whole_numbers! {
    u16: 0, u16::MAX as i64;
    u32: 0, u32::MAX as i64;
    u64: 0, i64::MAX;
    usize: 0, i64::MAX;
    i64: i64::MIN, i64::MAX;
}

/// In seconds; whole ones unless the option's kind is [`OptionKind::Seconds`].
impl OptionType for Duration {
    const KIND: OptionKind = OptionKind::Integer(0, i64::MAX);

    fn read(value: &Value) -> Option<Self> {
        match value.as_u64() {
            Some(whole) => Some(Duration::from_secs(whole)),
            None => Duration::try_from_secs_f64(value.as_f64()?).ok(),
        }
    }

    fn write(&self) -> Value {
        match self.subsec_nanos() {
            0 => Value::from(self.as_secs()),
            _ => Value::from(self.as_secs_f64()),
        }
    }
}

/// A default in seconds.
#[must_use]
pub const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A default that is a list of texts.
#[must_use]
pub fn texts<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(str::to_owned).to_vec()
}

/// Declares an enum whose variants are the accepted words: `choices! { pub enum Scrub { Always = "always", Never =
/// "never" } }`.
#[macro_export]
macro_rules! choices {
    (
        $(#[$attr:meta])*
        $vis:vis enum $name:ident { $($(#[$variant_attr:meta])* $variant:ident = $word:literal),+ $(,)? }
    ) => {
        $(#[$attr])*
        $vis enum $name {
            $($(#[$variant_attr])* $variant),+
        }

        impl $name {
            /// The words, in the order of the variants.
            $vis const WORDS: &'static [&'static str] = &[$($word),+];

            /// The word of the variant.
            #[must_use]
            $vis const fn as_str(&self) -> &'static str {
                match self {
                    $(Self::$variant => $word),+
                }
            }
        }

        impl ::core::str::FromStr for $name {
            type Err = ();

            fn from_str(word: &str) -> ::core::result::Result<Self, ()> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(()),
                }
            }
        }

        impl ::core::fmt::Display for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        $crate::text_type!(
            $name,
            $crate::OptionKind::Choice(Self::WORDS),
            $crate::OptionKind::Choices(Self::WORDS)
        );
    };
}

//! Serde for numbers that JSON lacks: `"inf"`, `"-inf"` and `"nan"`, which an aggregate's multiplier may be.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Number {
    Finite(f64),
    Special(Special),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Special {
    Inf,
    #[serde(rename = "-inf")]
    MinusInf,
    Nan,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "so serde calls it with a field"
)]
pub(super) fn serialize<S: Serializer>(number: &f64, to: S) -> Result<S::Ok, S::Error> {
    let number = match *number {
        it if it.is_nan() => Number::Special(Special::Nan),
        f64::INFINITY => Number::Special(Special::Inf),
        f64::NEG_INFINITY => Number::Special(Special::MinusInf),
        it => Number::Finite(it),
    };
    number.serialize(to)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(match Number::deserialize(from)? {
        Number::Finite(it) => it,
        Number::Special(Special::Inf) => f64::INFINITY,
        Number::Special(Special::MinusInf) => f64::NEG_INFINITY,
        Number::Special(Special::Nan) => f64::NAN,
    })
}

//! A JSON value with its path in the file, for errors that name the field.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::text::shortened;

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{wrong}", before(path))]
pub struct FieldError {
    /// The place of the field, for example `hosts[1].free_ram_mb`.
    pub path: String,
    /// The error: the expected value and the actual one.
    pub wrong: String,
}

/// The whole file has no path.
fn before(path: &str) -> String {
    match path {
        "" => String::new(),
        path => format!("{}: ", shortened(path)),
    }
}

/// A JSON value with its path.
#[derive(Debug, Clone)]
pub struct CaseField<'a> {
    path: String,
    value: &'a Value,
}

pub(super) type FieldResult<T> = Result<T, FieldError>;

impl<'a> CaseField<'a> {
    pub fn root(value: &'a Value) -> Self {
        Self {
            path: String::new(),
            value,
        }
    }

    pub fn value(&self) -> &'a Value {
        self.value
    }

    /// The error for a value that is something else.
    pub fn should_be(&self, what: impl AsRef<str>) -> FieldError {
        let is = match self.value {
            Value::Array(_) => "a list".to_owned(),
            Value::Object(_) => "an object".to_owned(),
            scalar => scalar.to_string(),
        };
        self.wrong(format!("should be {}, and is {is}", what.as_ref()))
    }

    /// An error with a custom text.
    pub fn wrong(&self, wrong: String) -> FieldError {
        FieldError {
            path: self.path.clone(),
            wrong: shortened(&wrong).into_owned(),
        }
    }

    /// A key of an object, be its value null.
    pub fn given(&self, key: &str) -> FieldResult<Option<Self>> {
        let Value::Object(object) = self.value else {
            return Err(self.should_be("an object"));
        };
        Ok(object.get(key).map(|value| Self {
            path: self.under(key),
            value,
        }))
    }

    /// The value of a mandatory key.
    pub fn needed(&self, key: &str) -> FieldResult<Self> {
        self.given(key)?.ok_or_else(|| FieldError {
            path: self.under(key),
            wrong: "is missing".to_owned(),
        })
    }

    /// The value of a key; `None` if it is missing or null.
    pub fn maybe<T>(
        &self,
        key: &str,
        read: impl FnOnce(&Self) -> FieldResult<T>,
    ) -> FieldResult<Option<T>> {
        let field = self.given(key)?.filter(|field| !field.value.is_null());
        field.map(|field| read(&field)).transpose()
    }

    /// The value of a key; the default if it is missing or null.
    pub fn or<T>(
        &self,
        key: &str,
        default: T,
        read: impl FnOnce(&Self) -> FieldResult<T>,
    ) -> FieldResult<T> {
        Ok(self.maybe(key, read)?.unwrap_or(default))
    }

    pub fn text(&self) -> FieldResult<&'a str> {
        self.value.as_str().ok_or_else(|| self.should_be("a text"))
    }

    pub fn string(&self) -> FieldResult<String> {
        self.text().map(str::to_owned)
    }

    pub fn int(&self) -> FieldResult<i64> {
        let int = self.value.as_i64();
        int.ok_or_else(|| self.should_be("a whole number"))
    }

    /// A whole number from 0 on.
    pub fn count<T: TryFrom<i64>>(&self) -> FieldResult<T> {
        T::try_from(self.int()?).map_err(|_| self.should_be("a whole number from 0 on"))
    }

    pub fn float(&self) -> FieldResult<f64> {
        self.value
            .as_f64()
            .ok_or_else(|| self.should_be("a number"))
    }

    pub fn flag(&self) -> FieldResult<bool> {
        let flag = self.value.as_bool();
        flag.ok_or_else(|| self.should_be("true or false"))
    }

    /// The fields of a list.
    pub fn items(&self) -> FieldResult<Vec<Self>> {
        let Value::Array(items) = self.value else {
            return Err(self.should_be("a list"));
        };
        let fields = items.iter().enumerate().map(|(place, value)| Self {
            path: format!("{}[{place}]", self.path),
            value,
        });
        Ok(fields.collect())
    }

    /// A list or set of equal elements.
    pub fn list<T, C: FromIterator<T>>(
        &self,
        read: impl Fn(&Self) -> FieldResult<T>,
    ) -> FieldResult<C> {
        self.items()?.iter().map(read).collect()
    }

    /// An object with equal values.
    pub fn map<T>(
        &self,
        read: impl Fn(&Self) -> FieldResult<T>,
    ) -> FieldResult<BTreeMap<String, T>> {
        let Value::Object(object) = self.value else {
            return Err(self.should_be("an object"));
        };
        let read_one = |(key, value): (&String, &'a Value)| {
            let path = self.under(key);
            Ok((key.clone(), read(&Self { path, value })?))
        };
        object.iter().map(read_one).collect()
    }

    fn under(&self, key: &str) -> String {
        match self.path.is_empty() {
            true => key.to_owned(),
            false => format!("{}.{key}", self.path),
        }
    }
}

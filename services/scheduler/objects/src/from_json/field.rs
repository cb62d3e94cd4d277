//! [`CaseField`]: a JSON value of a scheduler case with its path, for errors that name the field.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::text::shortened;

/// A field with a wrong type or value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", prefix(path))]
pub struct FieldError {
    /// The path of the field, for example `hosts[1].free_ram_mb`.
    pub path: String,
    /// The expected value and the actual one.
    pub problem: String,
}

/// The path of the field before the problem; empty for the whole file.
fn prefix(path: &str) -> String {
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

    /// The error of a value that is not `what`.
    pub fn expected(&self, what: impl AsRef<str>) -> FieldError {
        let is = match self.value {
            Value::Array(_) => "a list".to_owned(),
            Value::Object(_) => "an object".to_owned(),
            scalar => scalar.to_string(),
        };
        self.error(format!("should be {}, and is {is}", what.as_ref()))
    }

    /// An error of this field with another text.
    pub fn error(&self, problem: String) -> FieldError {
        FieldError {
            path: self.path.clone(),
            problem: shortened(&problem).into_owned(),
        }
    }

    /// The value of a key, which may be null; `None` if the key is missing.
    pub fn get(&self, key: &str) -> FieldResult<Option<Self>> {
        let Value::Object(object) = self.value else {
            return Err(self.expected("an object"));
        };
        Ok(object.get(key).map(|value| Self {
            path: self.path_of(key),
            value,
        }))
    }

    /// The value of a required key.
    pub fn required(&self, key: &str) -> FieldResult<Self> {
        self.get(key)?.ok_or_else(|| FieldError {
            path: self.path_of(key),
            problem: "is missing".to_owned(),
        })
    }

    /// The value of a key; `None` if it is missing or null.
    pub fn optional<T>(
        &self,
        key: &str,
        read: impl FnOnce(&Self) -> FieldResult<T>,
    ) -> FieldResult<Option<T>> {
        let field = self.get(key)?.filter(|field| !field.value.is_null());
        field.map(|field| read(&field)).transpose()
    }

    /// The value of a key; the default if it is missing or null.
    pub fn optional_or<T>(
        &self,
        key: &str,
        default: T,
        read: impl FnOnce(&Self) -> FieldResult<T>,
    ) -> FieldResult<T> {
        Ok(self.optional(key, read)?.unwrap_or(default))
    }

    pub fn text(&self) -> FieldResult<&'a str> {
        self.value.as_str().ok_or_else(|| self.expected("a text"))
    }

    pub fn string(&self) -> FieldResult<String> {
        self.text().map(str::to_owned)
    }

    pub fn int(&self) -> FieldResult<i64> {
        let int = self.value.as_i64();
        int.ok_or_else(|| self.expected("a whole number"))
    }

    /// A whole number from 0 on.
    pub fn count<T: TryFrom<i64>>(&self) -> FieldResult<T> {
        T::try_from(self.int()?).map_err(|_| self.expected("a whole number from 0 on"))
    }

    pub fn float(&self) -> FieldResult<f64> {
        self.value.as_f64().ok_or_else(|| self.expected("a number"))
    }

    pub fn flag(&self) -> FieldResult<bool> {
        let flag = self.value.as_bool();
        flag.ok_or_else(|| self.expected("true or false"))
    }

    /// The fields of a list.
    pub fn items(&self) -> FieldResult<Vec<Self>> {
        let Value::Array(items) = self.value else {
            return Err(self.expected("a list"));
        };
        let fields = items.iter().enumerate().map(|(index, value)| Self {
            path: format!("{}[{index}]", self.path),
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
            return Err(self.expected("an object"));
        };
        let read_one = |(key, value): (&String, &'a Value)| {
            let path = self.path_of(key);
            Ok((key.clone(), read(&Self { path, value })?))
        };
        object.iter().map(read_one).collect()
    }

    fn path_of(&self, key: &str) -> String {
        match self.path.is_empty() {
            true => key.to_owned(),
            false => format!("{}.{key}", self.path),
        }
    }
}

//! [`NovaObjectList`]: a list of objects of one type.

use serde_json::Value;

use crate::field::FieldValue;
use crate::object::{NotAnObject, NovaObject};
use crate::objects::NovaObjectType;
use crate::release::{NovaRelease, UnsendableObject};

const OBJECTS: &str = "objects";

/// A list of objects. On the wire it is an object itself, whose field `objects` has the items.
#[derive(Debug, Clone, PartialEq)]
pub struct NovaObjectList<T> {
    /// The list object without its items.
    list: NovaObject,
    items: Vec<T>,
}

impl<T: NovaObjectType> NovaObjectList<T> {
    /// The type's name on the wire. A type without lists has none in the version table either.
    fn name() -> &'static str {
        T::LIST.unwrap_or("(no list)")
    }

    /// A new list, in the version of the release.
    pub fn new(release: &NovaRelease, items: Vec<T>) -> Result<Self, UnsendableObject> {
        let version = release.version_of(Self::name())?;
        let mut list = NovaObject::new(Self::name(), version);
        // The items are not here, but the change is.
        list.set(OBJECTS, Vec::<String>::new());
        Ok(Self { list, items })
    }

    /// Reads a list.
    pub fn from_json(json: Value) -> Result<Self, NotAnObject> {
        let mut list = NovaObject::from_json(json)?;
        if list.name() != Self::name() {
            return Err(NotAnObject::Name {
                found: crate::object::shortened(list.name()),
                expected: Self::name(),
            });
        }
        let items = match list.data_mut().get_mut(OBJECTS).map(Value::take) {
            Some(Value::Array(items)) => items,
            other => {
                return Err(NotAnObject::Json {
                    found: other
                        .as_ref()
                        .map_or("a list object without items", crate::field::kind_of),
                });
            }
        };
        let items = items
            .into_iter()
            .map(T::from_json)
            .collect::<Result<_, _>>()?;
        Ok(Self { list, items })
    }

    #[must_use]
    pub fn into_json(self) -> Value {
        let mut list = self.list;
        let items = self.items.into_iter().map(T::into_json).collect();
        list.data_mut().insert(OBJECTS.to_owned(), items);
        list.into_json()
    }

    #[must_use]
    pub fn items(&self) -> &[T] {
        &self.items
    }

    #[must_use]
    pub fn into_items(self) -> Vec<T> {
        self.items
    }
}

impl<T: NovaObjectType> FieldValue<'_> for NovaObjectList<T> {
    const EXPECTED: &'static str = "a list of Nova objects of one type";

    fn read(value: &Value) -> Option<Self> {
        Self::from_json(value.clone()).ok()
    }

    fn write(self) -> Value {
        self.into_json()
    }
}

//! Nova's objects with accessors for the fields that a compute service reads and writes.
//!
//! Each type wraps a [`NovaObject`]. A getter fails if its field is not set; a setter records the change. Types and nullability are those
//! of Nova's fields, which a test compares with the release.

mod action;
mod block_device;
mod compute_node;
mod console;
mod image;
mod instance;
mod list;
mod migration;
mod network;
mod pci;
mod scheduling;
mod service;
#[cfg(test)]
mod tests;
mod topology;

use serde_json::Value;

use crate::object::{NotAnObject, NovaObject};

pub use action::{
    NovaEventName, NovaEventStatus, NovaExternalEvent, NovaInstanceAction, NovaInstanceActionEvent,
    NovaInstanceFault,
};
pub use block_device::{NovaBlockDeviceMapping, NovaShareMapping};
pub use compute_node::{NovaComputeNode, NovaHvSpec, NovaPciDevicePool};
pub use console::{NovaConsoleAuthToken, NovaKeyPair};
pub use image::NovaImageMeta;
pub use instance::{NovaFlavor, NovaInstance, NovaInstanceResource};
pub use list::NovaObjectList;
pub use migration::NovaMigration;
pub use network::{NovaInfoCache, NovaNetworkRequest, NovaVirtualInterface};
pub use pci::{
    NovaInstancePciRequest, NovaInstancePciRequests, NovaPciDevice, NovaPciDeviceStatus,
};
pub use scheduling::{NovaRequestSpec, NovaSchedulerLimits, NovaSelection};
pub use service::NovaService;
pub use topology::{NovaInstanceNumaCell, NovaInstanceNumaTopology};

/// A type of Nova's objects.
pub trait NovaObjectType: Sized {
    /// The name on the wire.
    const NAME: &'static str;
    /// The name of the list type on the wire, if there is one.
    const LIST: Option<&'static str>;

    /// Wraps an object that has this type's name.
    #[doc(hidden)]
    fn from_own(object: NovaObject) -> Self;

    fn object(&self) -> &NovaObject;

    fn object_mut(&mut self) -> &mut NovaObject;

    fn into_object(self) -> NovaObject;

    /// Takes an object if it has this type.
    fn from_object(object: NovaObject) -> Result<Self, NotAnObject> {
        if object.name() == Self::NAME {
            return Ok(Self::from_own(object));
        }
        Err(NotAnObject::Name {
            found: crate::object::shortened(object.name()),
            expected: Self::NAME,
        })
    }

    /// Reads an object of this type.
    fn from_json(json: Value) -> Result<Self, NotAnObject> {
        Self::from_object(NovaObject::from_json(json)?)
    }

    fn into_json(self) -> Value {
        self.into_object().into_json()
    }
}

/// Declares a type of objects: its name on the wire, the name of its list, and a getter for each field. A field after which a second
/// name stands has a setter of that name.
macro_rules! object_type {
    (
        $(#[$doc:meta])*
        $Type:ident = $name:literal, $list:expr;
        $( $(#[$field_doc:meta])* $field:ident $(/ $setter:ident)? : $value:ty; )*
    ) => {
        $(#[$doc])*
        ///
        /// Getters fail if the field is not set or has another type.
        #[derive(Debug, Clone, PartialEq)]
        pub struct $Type($crate::object::NovaObject);

        impl $Type {
            $(
                $(#[$field_doc])*
                pub fn $field(&self) -> Result<$value, $crate::field::NovaFieldError> {
                    self.0.get(stringify!($field))
                }

                $(
                    pub fn $setter(&mut self, value: $value) {
                        self.0.set(stringify!($field), value);
                    }
                )?
            )*

            /// The fields with their nullability.
            #[cfg(test)]
            pub(crate) const FIELDS: &'static [(&'static str, bool)] = &[
                $((stringify!($field), <$value as $crate::field::FieldValue>::NULLABLE),)*
            ];
        }

        impl $crate::objects::NovaObjectType for $Type {
            const NAME: &'static str = $name;
            const LIST: Option<&'static str> = $list;

            fn from_own(object: $crate::object::NovaObject) -> Self {
                Self(object)
            }

            fn object(&self) -> &$crate::object::NovaObject {
                &self.0
            }

            fn object_mut(&mut self) -> &mut $crate::object::NovaObject {
                &mut self.0
            }

            fn into_object(self) -> $crate::object::NovaObject {
                self.0
            }
        }

        impl $crate::field::FieldValue<'_> for $Type {
            const EXPECTED: &'static str = concat!("a Nova object of the type ", $name);

            fn read(value: &serde_json::Value) -> Option<Self> {
                <Self as $crate::objects::NovaObjectType>::from_json(value.clone()).ok()
            }

            fn write(self) -> serde_json::Value {
                self.0.into_json()
            }
        }
    };
}
pub(crate) use object_type;

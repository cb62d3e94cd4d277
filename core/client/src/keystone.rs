//! Who asks, and where the service is: keystoneauth's options by their names, a session with Keystone, the catalog.
//!
//! [`AuthOptions`] is a plain struct that configuration fills; [`AuthOptions::check`] names everything missing or
//! contradictory at once. [`Auth`] is what an [`crate::Adapter`] asks before each request: token and endpoint.

mod auth;
mod check;
mod error;
mod options;
mod secret;
mod session;
pub(crate) mod target;

pub(crate) use auth::Renewal;
pub use auth::{Account, Auth};
pub use check::{OptionProblem, OptionsError};
pub use error::AuthError;
pub use options::{AuthOptions, AuthType, AuthTypeError, Interface, InterfaceError};
pub use secret::Secret;
pub use session::{Clock, system_clock};

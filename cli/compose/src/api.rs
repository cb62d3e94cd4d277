//! The front listener: all services of this process at one address. Callers need a token of the Identity service that
//! is served at the same address. `berth up` and `berth controller` use it.
//!
//! | module | contents |
//! |---|---|
//! | `listener` | [`OpenApi`]: the address, the Identity service, and the mounted services |
//! | `front` | [`FrontListener`]: the routers of Placement and images for this listener |
//! | `first_user` | the user that is created if the operator has no file of users |
//! | `clouds` | `clouds.yaml`, with which OpenStack's clients find the listener |

mod clouds;
mod first_user;
mod front;
mod listener;

pub use front::{FrontListener, ServedListener};
pub use listener::{ApiAddresses, OpenApi};

//! The front listener: every service of this process behind one address. Callers show a token of the Identity service that is
//! behind it, too. `berth up` and `berth controller` use it.
//!
//! | module | what it holds |
//! |---|---|
//! | `listener` | [`OpenApi`]: the address, the Identity service, and the mounted services |
//! | `front` | [`FrontListener`]: the routers of Placement and images for this listener |
//! | `first_user` | the user that exists before an operator made one |
//! | `clouds` | `clouds.yaml`, with which OpenStack's clients find the listener |

mod clouds;
mod first_user;
mod front;
mod listener;

pub use front::{FrontListener, ServedListener};
pub use listener::OpenApi;

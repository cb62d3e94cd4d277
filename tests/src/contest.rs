//! A contest: many writers claim the last units of one provider, from one Placement or from several over one database.
//!
//! All requests and answers form a [`ContestHistory`]. The changes that the database recorded form a
//! [`ProviderChangeLog`]. [`place`] checks that each acknowledged write has its position in the order of the provider's
//! generations, and that no position exceeds the capacity. Used by the tests `claims` and `kill`.

mod change_log;
mod history;
mod order;
mod services;
mod writers;

pub use change_log::{ProviderChange, ProviderChangeLog};
pub use history::{
    AllocationModel, ContestAnswer, ContestCall, ContestHistory, DesiredAllocation, Event,
};
pub use order::{OrderViolation, WriteOrder, place, place_of};
pub use services::{Isolation, RowsLocation, Services, ServicesError, with_database};
pub use writers::{Contest, RunningContest, ask, consumer_uuid, provider_uuid};

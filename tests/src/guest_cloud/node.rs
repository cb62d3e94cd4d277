//! A compute host: what of it outlives its agent.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use berth_agent::guest::{GuestJournal as _, SqlJournal};
use berth_model::ConsumerUuid;
use berth_virt::VirtDriver as _;
use tokio::sync::Notify;

use super::crossings::Process;
use super::hardware::{Hardware, Host};
use super::lives::{Agent, Present};
use super::{CARDS, NODE, SECOND};
use crate::fault::busy;
use crate::node::{COMPUTE_ID, MemoryFiles};

/// The number of the second host's first card: no two cards have one address.
const CARDS_OF_SECOND: u8 = 32;

/// A compute host of the same name as its node.
pub struct Node {
    /// The name.
    pub name: &'static str,
    /// What is beneath the agent.
    pub hardware: Arc<Hardware>,
    pub(super) process: Process,
    pub(super) guests_db: SqlJournal,
    pub(super) files: MemoryFiles,
    pub(super) boots: AtomicU32,
    pub(super) plugged: Notify,
    pub(super) agent: Present<Agent>,
    pub(super) is_cut_off: Arc<AtomicBool>,
}

/// Whether the conductor reaches a host's agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// It does.
    There,
    /// Nobody listens there.
    Away,
}

impl Node {
    pub(super) async fn new(place: usize, host: Host) -> Self {
        let (name, memory_mib, first) = match place {
            0 => (NODE, 65_536, 0),
            _ => (SECOND, 32_768, CARDS_OF_SECOND),
        };
        let files = MemoryFiles::default();
        let root = format!("20000000-0000-4000-8000-{:012}", place + 1);
        files.put(COMPUTE_ID, &root);
        let cards = first..first + CARDS;
        Self {
            name,
            hardware: Arc::new(Hardware::with(name, memory_mib, cards, host)),
            process: Process::Agent(place),
            guests_db: busy(SqlJournal::in_memory()).await.expect("memory"),
            files,
            boots: AtomicU32::default(),
            plugged: Notify::default(),
            agent: Present::default(),
            is_cut_off: Arc::default(),
        }
    }

    pub(super) fn boots(&self) -> u32 {
        self.boots.load(Ordering::SeqCst)
    }

    /// From now on the conductor reaches its agent, or does not.
    pub fn agent_is(&self, reach: Reach) {
        let is_cut_off = reach == Reach::Away;
        self.is_cut_off.store(is_cut_off, Ordering::SeqCst);
    }

    /// The guests that are on it.
    ///
    /// # Panics
    /// Never: the guests are in memory.
    pub async fn guests(&self) -> BTreeSet<ConsumerUuid> {
        let guests = self.hardware.guests().await.expect("in memory");
        guests.into_keys().collect()
    }

    /// The guests that its agent's journal has anything of.
    ///
    /// # Panics
    /// The journal cannot be read.
    pub async fn remembered(&self) -> BTreeSet<ConsumerUuid> {
        let records = busy(self.guests_db.guests()).await.expect("a journal");
        records.iter().map(|record| record.request.uuid()).collect()
    }
}

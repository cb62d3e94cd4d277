//! A compute host: the parts that outlive its agent.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use berth_agent_journal::{GuestJournal as _, SqlJournal};
use berth_model::ConsumerUuid;
use berth_virt::VirtDriver as _;
use tokio::sync::Notify;

use super::effects::CloudProcess;
use super::hardware::{CardHardware, Hardware};
use super::processes::{AgentEndpoint, CurrentProcess};
use super::{CARDS, GuestCloud, NODE, SECOND};
use crate::fault::busy;
use crate::node::{COMPUTE_ID, MemoryFiles};

/// The number of the second host's first card: no two cards have one address.
const CARDS_OF_SECOND: u8 = 32;

/// A compute host of the same name as its node.
pub struct ComputeNode {
    pub name: &'static str,
    /// What is beneath the agent.
    pub hardware: Arc<Hardware>,
    /// The numbers of the cards that it has at first.
    pub cards: Range<u8>,
    pub(super) process: CloudProcess,
    pub(super) guests_db: SqlJournal,
    pub(super) files: MemoryFiles,
    pub(super) boots: AtomicU32,
    pub(super) plugged: Notify,
    pub(super) agent: CurrentProcess<AgentEndpoint>,
    pub(super) is_cut_off: Arc<AtomicBool>,
}

/// Whether the conductor reaches a host's agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentReachability {
    There,
    Away,
}

impl ComputeNode {
    pub(super) async fn new(place: usize, host: CardHardware) -> Self {
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
            hardware: Arc::new(Hardware::with(name, memory_mib, cards.clone(), host)),
            cards,
            process: CloudProcess::Agent(place),
            guests_db: busy(SqlJournal::in_memory()).await.expect("memory"),
            files,
            boots: AtomicU32::default(),
            plugged: Notify::default(),
            agent: CurrentProcess::default(),
            is_cut_off: Arc::default(),
        }
    }

    /// Replaces its cards, and reports the change.
    pub(super) fn plug(&self, cards: impl IntoIterator<Item = u8>) {
        self.hardware.show(cards);
        self.plugged.notify_one();
    }

    /// It is switched off and on.
    pub(super) async fn boot(&self) {
        self.boots.fetch_add(1, Ordering::SeqCst);
        self.hardware.boot().await;
    }

    pub(super) fn boots(&self) -> u32 {
        self.boots.load(Ordering::SeqCst)
    }

    /// From now on the conductor reaches its agent, or does not.
    pub fn agent_is(&self, reach: AgentReachability) {
        let is_cut_off = reach == AgentReachability::Away;
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

impl GuestCloud {
    /// Adds a card to the host with this number range.
    pub fn plug_in(&self, card: u8) {
        let node = self.node_of(card);
        let mut cards = node.hardware.cards();
        cards.insert(card);
        node.plug(cards);
    }

    /// Removes a card, even if a guest uses it.
    pub fn pull_out(&self, card: u8) {
        let node = self.node_of(card);
        let mut cards = node.hardware.cards();
        cards.remove(&card);
        node.plug(cards);
    }

    /// Every host has the cards again that it had at first, and those it was given.
    pub fn plug_in_again(&self) {
        for node in self.nodes.iter() {
            node.plug(node.cards.clone().chain(node.hardware.cards()));
        }
    }

    /// Every host has the cards that it had at first.
    pub fn as_at_first(&self) {
        for node in self.nodes.iter() {
            let cards: BTreeSet<u8> = node.cards.clone().collect();
            if node.hardware.cards() != cards {
                node.plug(cards);
            }
        }
    }

    /// The host that a card of this number is in.
    fn node_of(&self, card: u8) -> &ComputeNode {
        let mut nodes = self.nodes.iter().rev();
        let node = nodes.find(|node| card >= node.cards.start);
        node.unwrap_or(&self.nodes[0])
    }
}

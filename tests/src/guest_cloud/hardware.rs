//! The host beneath the agent: the fake driver's machine, and the traces that a guest leaves in its devices.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_fake::FakeDriver;
use berth_model::{ConsumerUuid, PciAddress};
use berth_virt::guest_spec::{DesiredPower, GuestDevices, GuestSpec};
use berth_virt::{
    DeviceError, DeviceReset, GuestDestroyOutcome, GuestError, GuestOnHost, GuestPowerOutcome,
    GuestSpawnOutcome, HostDeviceId, HostEvents, HostView, ObserveError, PowerAction, PowerState,
    PreparedDevice, VirtDriver, WantedDevice,
};

/// A bug that is planted, to see that it is caught.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlantedBug {
    /// Resets are reported but not done.
    SkipsResets,
    /// A guest is made without its last device.
    GivesFewer,
    /// A destroyed guest keeps running.
    KeepsGuests,
    /// A guest is never said to be made.
    Hangs,
}

/// What goes wrong with each guest that is made there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestMishap {
    /// Its device is not made ready.
    NotPrepared,
    /// The hypervisor does not take it.
    NotDefined,
    /// The hypervisor takes it, and does not start it.
    NotStarted,
}

#[derive(Default)]
struct HardwareState {
    /// Who used each device since its last reset.
    used: BTreeMap<String, BTreeSet<ConsumerUuid>>,
    cards: BTreeSet<u8>,
    bug: Option<PlantedBug>,
    mishap: Option<GuestMishap>,
    /// The card that is pulled out as soon as it is being reset.
    pulled_in_reset: Option<u8>,
}

pub struct Hardware {
    fake: FakeDriver,
    node: &'static str,
    memory_mib: u32,
    host: CardHardware,
    state: Mutex<HardwareState>,
}

/// The n-th card's address.
///
/// # Panics
/// Never: the text is an address for every `n`.
#[must_use]
pub fn card(n: u8) -> PciAddress {
    let text = format!("0000:{:02x}:00.0", 0x40 + n);
    text.parse().expect("a PCI address")
}

/// What the cards are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CardHardware {
    /// One cell, and no CPU of it dedicated.
    Flat,
    /// Two cells of 16 dedicated CPUs each, reported as PCPU. The card [`ON_CELL_0`] hangs on cell 0, the others on cell 1.
    TwoCells,
}

/// The card of the `TwoCells` host that is on its first cell.
pub const ON_CELL_0: u8 = 1;

impl CardHardware {
    fn machine(self, name: &str, memory_mib: u32, cards: &BTreeSet<u8>) -> String {
        let node = format!("[[node]]\nname = \"{name}\"\nmemory_mib = {memory_mib}\ndisk = 500\n");
        let mut text = match self {
            Self::Flat => format!("{node}cpus = {{ online = \"0-31\" }}\n"),
            Self::TwoCells => format!(
                "[model]\npcpu = \"pcpu\"\n\
                 {node}cpus = {{ online = \"0-31\", dedicated = \"0-31\" }}\n\
                 [[node.cell]]\nid = 0\ncpus = \"0-15\"\nmemory_mib = 32768\n\
                 [[node.cell]]\nid = 1\ncpus = \"16-31\"\nmemory_mib = 32768\n"
            ),
        };
        for n in cards {
            let address = card(*n);
            let cell = u8::from(self == Self::TwoCells && *n != ON_CELL_0);
            text += &format!(
                "\n[[node.device]]\naddress = \"{address}\"\nvendor = \"10de\"\nproduct = \"1eb8\"\nnuma = {cell}\n\
                 traits = [\"CUSTOM_GPU\"]\n"
            );
        }
        text
    }
}

/// A device by the name it has in journals.
#[must_use]
pub fn name_of(device: HostDeviceId) -> String {
    match device {
        HostDeviceId::Function(address) => address.to_string(),
        HostDeviceId::Mdev(uuid) => uuid.hyphenated().to_string(),
    }
}

impl Hardware {
    /// A host with these cards.
    ///
    /// # Panics
    /// Never: the machine is whole.
    #[must_use]
    pub fn with(
        node: &'static str,
        memory_mib: u32,
        cards: impl IntoIterator<Item = u8>,
        host: CardHardware,
    ) -> Self {
        let cards: BTreeSet<u8> = cards.into_iter().collect();
        let machine = host.machine(node, memory_mib, &cards);
        let fake = FakeDriver::from_text("machine", &machine).expect("a machine");
        let state = HardwareState {
            cards,
            ..HardwareState::default()
        };
        Self {
            fake,
            node,
            memory_mib,
            host,
            state: Mutex::new(state),
        }
    }

    fn state(&self) -> MutexGuard<'_, HardwareState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cards are plugged in or pulled out.
    ///
    /// # Panics
    /// Never: the machine is in memory.
    pub fn show(&self, cards: impl IntoIterator<Item = u8>) {
        let cards: BTreeSet<u8> = cards.into_iter().collect();
        self.fake
            .replace(&self.host.machine(self.node, self.memory_mib, &cards))
            .expect("in memory");
        let mut state = self.state();
        // What is gone takes along what was in it.
        let names: BTreeSet<_> = cards.iter().map(|n| card(*n).to_string()).collect();
        state.used.retain(|name, _| names.contains(name));
        state.cards = cards;
    }

    /// The cards that are there.
    #[must_use]
    pub fn cards(&self) -> BTreeSet<u8> {
        self.state().cards.clone()
    }

    /// This card is pulled out while it is reset the next time.
    pub fn pull_out_in_reset(&self, card: u8) {
        self.state().pulled_in_reset = Some(card);
    }

    /// Switches a guest off, past the agent.
    ///
    /// # Panics
    /// Never: the guests are in memory.
    pub async fn switch_off(&self, guest: ConsumerUuid) {
        let grace = Duration::ZERO;
        let stopped = self.fake.power(guest, PowerAction::Stop { grace }).await;
        let _ = stopped.expect("in memory");
    }

    pub fn plant(&self, bug: PlantedBug) {
        self.state().bug = Some(bug);
    }

    /// From now on this goes wrong with each guest that is made, or nothing.
    pub fn meets(&self, mishap: Option<GuestMishap>) {
        self.state().mishap = mishap;
    }

    fn met(&self, mishap: GuestMishap) -> bool {
        self.state().mishap == Some(mishap)
    }

    fn has(&self, bug: PlantedBug) -> bool {
        self.state().bug == Some(bug)
    }

    /// Who used each device since its last reset.
    #[must_use]
    pub fn used(&self) -> BTreeMap<String, BTreeSet<ConsumerUuid>> {
        self.state().used.clone()
    }

    /// Power-cycles the host: every guest is off. A device keeps what a guest left in it.
    ///
    /// # Panics
    /// Never: the guests are in memory.
    pub async fn boot(&self) {
        for (uuid, guest) in self.fake.guests().await.expect("in memory") {
            if guest.state != PowerState::ShutOff {
                let grace = Duration::ZERO;
                let stopped = self.fake.power(uuid, PowerAction::Stop { grace }).await;
                let _ = stopped.expect("in memory");
            }
        }
    }

    /// A running guest writes into its devices.
    async fn used_by(&self, uuid: ConsumerUuid) -> Result<(), GuestError> {
        let guests = self.fake.guests().await?;
        let running = guests
            .get(&uuid)
            .filter(|guest| guest.state == PowerState::Running);
        let mut state = self.state();
        for held in running.iter().flat_map(|guest| &guest.devices) {
            let users = state.used.entry(name_of(held.device)).or_default();
            users.insert(uuid);
        }
        Ok(())
    }
}

impl VirtDriver for Hardware {
    fn name(&self) -> &'static str {
        "fake"
    }

    async fn observe(&self) -> Result<HostView, ObserveError> {
        self.fake.observe().await
    }

    fn watch(&self) -> HostEvents {
        Box::pin(futures_util::stream::pending())
    }

    async fn spawn(&self, spec: &GuestSpec) -> Result<GuestSpawnOutcome, GuestError> {
        if self.has(PlantedBug::Hangs) {
            std::future::pending::<()>().await;
        }
        let refused = |call| GuestError::Refused {
            uuid: spec.uuid,
            call,
            reason: "internal error: the host is not well".to_owned(),
        };
        if self.met(GuestMishap::NotDefined) {
            return Err(refused("virDomainDefineXML"));
        }
        if self.met(GuestMishap::NotStarted) {
            let mut off = spec.clone();
            off.power = DesiredPower::ShutOff;
            let _ = self.fake.spawn(&off).await?;
            return Err(refused("virDomainCreate"));
        }
        let mut spec = spec.clone();
        if self.has(PlantedBug::GivesFewer) {
            let mut devices = spec.devices.as_slice().to_vec();
            devices.pop();
            spec.devices = GuestDevices::new(devices).unwrap_or_default();
        }
        let spawned = self.fake.spawn(&spec).await?;
        if spec.power == DesiredPower::Running {
            self.used_by(spec.uuid).await?;
        }
        Ok(spawned)
    }

    async fn destroy(&self, uuid: ConsumerUuid) -> Result<GuestDestroyOutcome, GuestError> {
        if self.has(PlantedBug::KeepsGuests) {
            return Ok(GuestDestroyOutcome::Destroyed);
        }
        self.fake.destroy(uuid).await
    }

    async fn guests(&self) -> Result<BTreeMap<ConsumerUuid, GuestOnHost>, GuestError> {
        self.fake.guests().await
    }

    async fn power(
        &self,
        uuid: ConsumerUuid,
        action: PowerAction,
    ) -> Result<GuestPowerOutcome, GuestError> {
        let powered = self.fake.power(uuid, action).await?;
        self.used_by(uuid).await?;
        Ok(powered)
    }

    async fn check_device(&self, wanted: &WantedDevice) -> Result<(), DeviceError> {
        self.fake.check_device(wanted).await
    }

    async fn prepare_device(&self, wanted: &WantedDevice) -> Result<(), DeviceError> {
        if self.met(GuestMishap::NotPrepared) {
            return Err(DeviceError::Unfinished {
                device: wanted.host_device(),
                call: "bind to vfio-pci",
                reason: "the host is not well".to_owned(),
            });
        }
        self.fake.prepare_device(wanted).await
    }

    async fn prepared_devices(&self) -> Result<Vec<PreparedDevice>, DeviceError> {
        self.fake.prepared_devices().await
    }

    async fn reset_device(&self, wanted: &WantedDevice) -> Result<DeviceReset, DeviceError> {
        if self.has(PlantedBug::SkipsResets) {
            return Ok(DeviceReset::Reset { driver: None });
        }
        let name = name_of(wanted.host_device());
        let pulled = self.state().pulled_in_reset;
        if let Some(pulled) = pulled.filter(|pulled| card(*pulled).to_string() == name) {
            self.state().pulled_in_reset = None;
            let mut cards = self.cards();
            cards.remove(&pulled);
            self.show(cards);
        }
        let reset = self.fake.reset_device(wanted).await?;
        if matches!(reset, DeviceReset::Reset { .. } | DeviceReset::Removed) {
            self.state().used.remove(&name_of(wanted.host_device()));
        }
        Ok(reset)
    }
}

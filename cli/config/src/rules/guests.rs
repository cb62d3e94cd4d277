//! Rules for guests, devices and the agent's listeners.

use berth_compute_driver::{ComputeDriver, CpuMode};
use berth_output::ErrorCode;
use berth_sysfs::AllowList;
use berth_virt::FabricPartitions;

use super::Judge;
use crate::sections::AuthStrategy;

impl Judge<'_> {
    pub(super) fn guests(&mut self) {
        self.cpu_model();
        self.disk_cache();
        self.device_owners();
        self.fabric_partitions();
        self.link_groups();
        self.agent_over_tls();
        self.events_without_token();
        self.agents_elsewhere();
    }

    /// Partitions need the program that activates them. The program alone may still deactivate those of earlier guests.
    fn fabric_partitions(&mut self) {
        let (partitions, hook) = ("fabric.partitions", "fabric.partition_hook");
        let fabric = &self.config.fabric;
        let needs_hook = !fabric.partitions.is_empty() && fabric.partition_hook.is_none();
        if needs_hook && !self.is_broken(&[partitions, hook]) {
            self.refuse(
                partitions,
                "no program is named that activates them, so no guest could use these GPUs",
                "set partition_hook in [fabric]",
                ErrorCode::Missing,
            );
        }
    }

    /// The GPUs of a partition are offered together, so a link group of one of them would have no effect.
    fn link_groups(&mut self) {
        let (pci, partitions) = ("pci.device_spec", "fabric.partitions");
        if self.is_broken(&[pci, partitions]) {
            return;
        }
        let fabric = FabricPartitions::read(&self.config.fabric.partitions);
        let list = AllowList::read(&self.config.pci.device_spec);
        // Invalid lists are reported already.
        let (Ok(fabric), Ok(list)) = (fabric, list) else {
            return;
        };
        let is_member = |address| fabric.partition_of(&[address].into()) != Ok(None);
        let mut grouped = list.single_functions_in_link_groups();
        if let Some((entry, address)) = grouped.find(|(_, address)| is_member(*address)) {
            self.refuse(
                pci,
                format!("entry {entry} has a link_group for {address}, which is in a partition of [fabric] partitions"),
                "remove link_group: the GPUs of a partition are requested together, by its class",
                ErrorCode::Contradiction,
            );
        }
    }

    /// `[agent] listen` needs its three files, and the files need it.
    fn agent_over_tls(&mut self) {
        let listen = "agent.listen";
        let files = ["tls_cert", "tls_key", "client_ca"];
        let names = files.map(|file| format!("agent.{file}"));
        if self.is_broken(&[listen]) || names.iter().any(|name| self.is_broken(&[name])) {
            return;
        }
        let (set, missing): (Vec<_>, Vec<_>) = files
            .into_iter()
            .zip(names)
            .partition(|(_, name)| self.is_set(name));
        let missing: Vec<_> = missing.iter().map(|(file, _)| *file).collect();
        let has_listener = self.config.agent.listen.address().is_some();
        match (has_listener, set.first()) {
            (true, _) if !missing.is_empty() => self.refuse(
                listen,
                format!("without {} no client can connect", missing.join(" and ")),
                "write tls_cert, tls_key and client_ca in [agent]",
                ErrorCode::Missing,
            ),
            (false, Some((_, name))) => self.warn(
                name,
                "listen is not set, so the file is not read",
                "write listen = \"192.0.2.10:9178\" in [agent], or remove it",
            ),
            _ => {}
        }
    }

    /// Callers of `[agent] events_listen` need a token, unless the operator accepts every local caller.
    fn events_without_token(&mut self) {
        let (listen, strategy, auth_url) = (
            "agent.events_listen",
            "agent.events_auth_strategy",
            "keystone_authtoken.auth_url",
        );
        if self.is_broken(&[listen, strategy, auth_url]) {
            return;
        }
        let agent = &self.config.agent;
        let has_keystone = self.config.keystone_authtoken.account.auth_url.is_some();
        if agent.events_listen.address().is_some()
            && agent.events_auth_strategy == AuthStrategy::Keystone
            && !has_keystone
        {
            self.refuse(
                listen,
                "callers need a token, and no Keystone is named that validates it",
                "set auth_url and an account in [keystone_authtoken], or write events_auth_strategy = \"noauth2\" in \
                 [agent] to accept events from every user of this host",
                ErrorCode::Missing,
            );
        }
    }

    /// Agents of other hosts require a client certificate.
    fn agents_elsewhere(&mut self) {
        let (agents, certfile, keyfile) = (
            "conductor_service.agents",
            "agent_client.certfile",
            "agent_client.keyfile",
        );
        if self.is_broken(&[agents, certfile, keyfile]) {
            return;
        }
        let own = &self.config.agent_client;
        let (has_certificate, has_key) = (own.certfile.is_some(), own.keyfile.is_some());
        if has_key && !has_certificate {
            let right = "write certfile in [agent_client], or remove it";
            let wrong = "certfile is not set";
            self.refuse(keyfile, wrong, right, ErrorCode::Contradiction);
        } else if !has_certificate && !self.config.conductor_service.agents.is_empty() {
            self.refuse(
                agents,
                "agents of other hosts require a client certificate, and none is set",
                "write certfile and keyfile in [agent_client]",
                ErrorCode::Missing,
            );
        }
        let mut hosts = std::collections::BTreeSet::new();
        for agent in self.config.conductor_service.agents.clone() {
            let host = agent.split('=').next().unwrap_or_default().to_owned();
            if !hosts.insert(host.clone()) {
                let wrong = format!("host {host} is listed twice");
                let right = "a host has one agent: remove one of the two";
                self.refuse(agents, wrong, right, ErrorCode::Contradiction);
            }
        }
    }

    /// A device has one owner. A device that is reported to Placement must not be identified by its interface's name
    /// alone.
    fn device_owners(&mut self) {
        let (pci, accelerators) = ("pci.device_spec", "accelerators.device_spec");
        if self.is_broken(&[pci, accelerators]) {
            return;
        }
        // Invalid lists are reported already.
        let Ok(of_compute) = AllowList::read(&self.config.pci.device_spec) else {
            return;
        };
        let Ok(of_service) = AllowList::read(&self.config.accelerators.device_spec) else {
            return;
        };
        if let Some((address, entry, other)) = of_service.same_address(&of_compute) {
            self.refuse(
                accelerators,
                format!("entry {entry} matches {address}, which entry {other} of [pci] device_spec matches too"),
                "a device has one owner: take it out of one of the lists",
                ErrorCode::Contradiction,
            );
        } else if let Some((entry, other)) = of_service.same_devices(&of_compute) {
            self.refuse(
                accelerators,
                format!("entry {entry} and entry {other} of [pci] device_spec match the same devices"),
                "a device has one owner: take it out of one of the lists, or make each more specific",
                ErrorCode::Contradiction,
            );
        }
        let reported = [
            (accelerators, &of_service, true),
            (pci, &of_compute, self.config.pci.report_in_placement),
        ];
        for (name, list, reported) in reported {
            if let Some(entry) = list.entry_with_devname().filter(|_| reported) {
                self.refuse(
                    name,
                    format!("entry {entry} names a network interface, and these devices are reported to Placement"),
                    "name the device by its address, or by vendor_id and product_id",
                    ErrorCode::Contradiction,
                );
            }
        }
    }

    fn cpu_model(&mut self) {
        let (mode, models) = ("libvirt.cpu_mode", "libvirt.cpu_models");
        if self.config.compute_driver != ComputeDriver::Libvirt || self.is_broken(&[mode, models]) {
            return;
        }
        let custom = self.config.libvirt.cpu_mode() == CpuMode::Custom;
        let named = self.config.libvirt.cpu_models.len();
        match (custom, named) {
            (true, 0) => self.refuse(
                mode,
                "a custom processor model needs a name",
                "write cpu_models = [\"Haswell-noTSX\"] in [libvirt]",
                ErrorCode::Missing,
            ),
            (false, 1..) => self.refuse(
                models,
                "cpu_mode is not custom, so no named model is used",
                "write cpu_mode = \"custom\" in [libvirt], or remove it",
                ErrorCode::Contradiction,
            ),
            (true, 2..) => self.warn(
                models,
                "only the first model is used",
                "name the one that guests are to see",
            ),
            (true, 1) | (false, 0) => {}
        }
    }

    fn disk_cache(&mut self) {
        let name = "libvirt.disk_cachemodes";
        if self.config.libvirt.cache_modes() > 1 && !self.is_broken(&[name]) {
            self.refuse(
                name,
                "only one cache mode per kind of disk is supported",
                "write file=none or file=writeback",
                ErrorCode::Contradiction,
            );
        }
    }
}

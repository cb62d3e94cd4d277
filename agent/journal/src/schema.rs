//! The tables of the agent's journal.

use berth_workflow::JournalSchema;

use crate::register;

pub(super) const SCHEMA: JournalSchema = JournalSchema {
    file: "guests.db",
    version_table: "guest_journal",
    create: CREATE,
    version: 6,
    // Version 1 had no rescue and no rebuild. Later versions have the same tables: version 2 had no action ids in `life`, and
    // version 3 no descriptions and no swap disks in `request`, version 4 no ports, and version 5 no places in `devices`.
    upgrades: &[(1, "ALTER TABLE guest ADD COLUMN life TEXT")],
    additions: &[register::CREATE, register::CREATE_RESET_AT_DELETION],
};

const CREATE: &str = "
CREATE TABLE guest (
    uuid TEXT NOT NULL PRIMARY KEY,
    request TEXT NOT NULL,
    course TEXT NOT NULL,
    power TEXT NOT NULL,
    devices TEXT,
    life TEXT
);
CREATE TABLE step (
    guest TEXT NOT NULL REFERENCES guest (uuid) ON DELETE CASCADE,
    step TEXT NOT NULL CHECK (step IN ('bind', 'check', 'prepare', 'define', 'start')),
    state TEXT NOT NULL CHECK (state IN ('begun', 'done', 'undoing', 'undone')),
    detail TEXT NOT NULL,
    PRIMARY KEY (guest, step)
);
CREATE TABLE device (
    name TEXT NOT NULL PRIMARY KEY,
    guest TEXT NOT NULL REFERENCES guest (uuid) ON DELETE CASCADE
);
CREATE INDEX device_guest ON device (guest);
";

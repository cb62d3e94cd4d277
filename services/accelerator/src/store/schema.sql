CREATE TABLE accelerator_schema (
    version INTEGER NOT NULL PRIMARY KEY,
    writes INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE device_profiles (
    id INTEGER NOT NULL PRIMARY KEY,
    uuid VARCHAR(36) NOT NULL UNIQUE,
    name VARCHAR(255) NOT NULL UNIQUE,
    description TEXT,
    profile_groups TEXT NOT NULL,
    created_at VARCHAR(26) NOT NULL,
    updated_at VARCHAR(26)
);
CREATE TABLE devices (
    id INTEGER NOT NULL PRIMARY KEY,
    uuid VARCHAR(36) NOT NULL UNIQUE,
    hostname VARCHAR(255) NOT NULL,
    name VARCHAR(255) NOT NULL,
    device_type VARCHAR(30) NOT NULL,
    vendor VARCHAR(255) NOT NULL,
    model VARCHAR(255),
    std_board_info TEXT,
    vendor_board_info TEXT,
    status VARCHAR(16) NOT NULL,
    vanished INTEGER NOT NULL,
    created_at VARCHAR(26) NOT NULL,
    updated_at VARCHAR(26),
    UNIQUE (hostname, name)
);
CREATE TABLE deployables (
    id INTEGER NOT NULL PRIMARY KEY,
    uuid VARCHAR(36) NOT NULL UNIQUE,
    device_id INTEGER NOT NULL,
    name VARCHAR(255) NOT NULL,
    rp_uuid VARCHAR(36) NOT NULL UNIQUE,
    resource_class VARCHAR(255) NOT NULL,
    driver_name VARCHAR(255),
    numa_node INTEGER,
    health VARCHAR(16) NOT NULL,
    health_reason TEXT,
    provider_missing INTEGER NOT NULL DEFAULT 0,
    programmable INTEGER NOT NULL DEFAULT 0,
    bitstream_id VARCHAR(255),
    vanished INTEGER NOT NULL,
    created_at VARCHAR(26) NOT NULL,
    updated_at VARCHAR(26),
    FOREIGN KEY (device_id) REFERENCES devices (id)
);
CREATE INDEX deployables_device_id ON deployables (device_id);
CREATE TABLE attributes (
    id INTEGER NOT NULL PRIMARY KEY,
    uuid VARCHAR(36) NOT NULL UNIQUE,
    deployable_id INTEGER NOT NULL,
    name VARCHAR(255) NOT NULL,
    value VARCHAR(255) NOT NULL,
    reported INTEGER NOT NULL,
    created_at VARCHAR(26) NOT NULL,
    updated_at VARCHAR(26),
    FOREIGN KEY (deployable_id) REFERENCES deployables (id)
);
CREATE INDEX attributes_deployable_id ON attributes (deployable_id);
CREATE TABLE accelerator_requests (
    id INTEGER NOT NULL PRIMARY KEY,
    uuid VARCHAR(36) NOT NULL UNIQUE,
    state VARCHAR(16) NOT NULL,
    device_profile_id INTEGER NOT NULL,
    device_profile_group_id INTEGER NOT NULL,
    project_id VARCHAR(255) NOT NULL,
    hostname VARCHAR(255),
    device_rp_uuid VARCHAR(36),
    instance_uuid VARCHAR(36),
    created_at VARCHAR(26) NOT NULL,
    updated_at VARCHAR(26),
    FOREIGN KEY (device_profile_id) REFERENCES device_profiles (id)
);
CREATE INDEX accelerator_requests_instance_uuid ON accelerator_requests (instance_uuid);
CREATE INDEX accelerator_requests_project_id ON accelerator_requests (project_id);
CREATE INDEX accelerator_requests_device_profile_id ON accelerator_requests (device_profile_id);
CREATE TABLE attach_handles (
    id INTEGER NOT NULL PRIMARY KEY,
    uuid VARCHAR(36) NOT NULL UNIQUE,
    deployable_id INTEGER NOT NULL,
    attach_type VARCHAR(16) NOT NULL,
    attach_info TEXT NOT NULL,
    unavailable TEXT,
    scrubbed INTEGER NOT NULL,
    releases INTEGER NOT NULL DEFAULT 0,
    cleaned INTEGER NOT NULL DEFAULT 0,
    vanished INTEGER NOT NULL,
    arq_id INTEGER UNIQUE,
    created_at VARCHAR(26) NOT NULL,
    updated_at VARCHAR(26),
    FOREIGN KEY (deployable_id) REFERENCES deployables (id),
    FOREIGN KEY (arq_id) REFERENCES accelerator_requests (id)
);
CREATE INDEX attach_handles_deployable_id ON attach_handles (deployable_id, arq_id);
CREATE TABLE events (
    id INTEGER NOT NULL PRIMARY KEY,
    instance_uuid VARCHAR(36) NOT NULL,
    arq_uuid VARCHAR(36) NOT NULL,
    status VARCHAR(16) NOT NULL,
    attempts INTEGER NOT NULL,
    due_at VARCHAR(26) NOT NULL,
    created_at VARCHAR(26) NOT NULL
);
CREATE INDEX events_due_at ON events (due_at);
CREATE INDEX events_arq_uuid ON events (arq_uuid);

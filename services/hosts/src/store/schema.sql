CREATE TABLE IF NOT EXISTS compute_hosts_schema (
    version INTEGER NOT NULL PRIMARY KEY,
    aggregates INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS compute_hosts (
    host VARCHAR(255) NOT NULL PRIMARY KEY,
    cell VARCHAR(255) NOT NULL,
    state VARCHAR(64),
    version VARCHAR(255) NOT NULL,
    agent_disabled_reason TEXT,
    disabled INTEGER NOT NULL,
    disabled_reason TEXT,
    forced_down INTEGER NOT NULL,
    created_at VARCHAR(26) NOT NULL,
    last_seen_at VARCHAR(26)
);
CREATE TABLE IF NOT EXISTS compute_nodes (
    uuid VARCHAR(36) NOT NULL PRIMARY KEY,
    host VARCHAR(255) NOT NULL,
    place INTEGER NOT NULL,
    hypervisor_hostname VARCHAR(255) NOT NULL,
    revision VARCHAR(64) NOT NULL,
    instances INTEGER NOT NULL,
    body TEXT NOT NULL,
    FOREIGN KEY (host) REFERENCES compute_hosts (host)
);
CREATE INDEX IF NOT EXISTS compute_nodes_host ON compute_nodes (host);
CREATE TABLE IF NOT EXISTS host_aggregates (
    id INTEGER NOT NULL PRIMARY KEY,
    uuid VARCHAR(36) NOT NULL UNIQUE,
    name VARCHAR(255) NOT NULL UNIQUE,
    metadata TEXT NOT NULL,
    created_at VARCHAR(26) NOT NULL,
    updated_at VARCHAR(26)
);
CREATE TABLE IF NOT EXISTS host_aggregate_members (
    aggregate_id INTEGER NOT NULL,
    host VARCHAR(255) NOT NULL,
    PRIMARY KEY (aggregate_id, host),
    FOREIGN KEY (aggregate_id) REFERENCES host_aggregates (id)
);
CREATE TABLE IF NOT EXISTS server_groups (
    id INTEGER NOT NULL PRIMARY KEY,
    uuid VARCHAR(36) NOT NULL UNIQUE,
    project_id VARCHAR(255) NOT NULL,
    user_id VARCHAR(255) NOT NULL,
    name VARCHAR(255) NOT NULL,
    policy VARCHAR(255) NOT NULL,
    max_server_per_host INTEGER,
    generation INTEGER NOT NULL,
    created_at VARCHAR(26) NOT NULL
);
CREATE INDEX IF NOT EXISTS server_groups_project_id ON server_groups (project_id);
CREATE TABLE IF NOT EXISTS server_group_members (
    instance_uuid VARCHAR(36) NOT NULL PRIMARY KEY,
    group_id INTEGER NOT NULL,
    host VARCHAR(255) NOT NULL,
    owner VARCHAR(36) NOT NULL,
    claimed INTEGER NOT NULL,
    FOREIGN KEY (group_id) REFERENCES server_groups (id)
);
CREATE INDEX IF NOT EXISTS server_group_members_group_id ON server_group_members (group_id);
CREATE TABLE IF NOT EXISTS guest_owners (
    instance_uuid VARCHAR(36) NOT NULL PRIMARY KEY,
    owner VARCHAR(36) NOT NULL
);
CREATE TABLE IF NOT EXISTS scheduling_records (
    id INTEGER NOT NULL PRIMARY KEY,
    request_id VARCHAR(255) NOT NULL,
    created_at VARCHAR(26) NOT NULL,
    record TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS scheduling_records_request_id ON scheduling_records (request_id);
CREATE INDEX IF NOT EXISTS scheduling_records_created_at ON scheduling_records (created_at);

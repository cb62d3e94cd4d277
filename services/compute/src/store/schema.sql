CREATE TABLE IF NOT EXISTS compute_api_schema (
    version INTEGER NOT NULL PRIMARY KEY
);
CREATE TABLE IF NOT EXISTS compute_flavors (
    id INTEGER NOT NULL PRIMARY KEY,
    flavorid VARCHAR(255) NOT NULL UNIQUE,
    name VARCHAR(255) NOT NULL UNIQUE,
    memory_mb INTEGER NOT NULL,
    vcpus INTEGER NOT NULL,
    root_gb INTEGER NOT NULL,
    ephemeral_gb INTEGER NOT NULL,
    swap INTEGER NOT NULL,
    rxtx_factor VARCHAR(64) NOT NULL,
    is_public INTEGER NOT NULL,
    description TEXT,
    created_at VARCHAR(26) NOT NULL,
    updated_at VARCHAR(26)
);
CREATE TABLE IF NOT EXISTS compute_flavor_extra_specs (
    flavor_id INTEGER NOT NULL,
    spec VARCHAR(255) NOT NULL,
    setting TEXT NOT NULL,
    PRIMARY KEY (flavor_id, spec),
    FOREIGN KEY (flavor_id) REFERENCES compute_flavors (id)
);
CREATE TABLE IF NOT EXISTS compute_flavor_projects (
    flavor_id INTEGER NOT NULL,
    project_id VARCHAR(255) NOT NULL,
    PRIMARY KEY (flavor_id, project_id),
    FOREIGN KEY (flavor_id) REFERENCES compute_flavors (id)
);
CREATE TABLE IF NOT EXISTS compute_key_pairs (
    id INTEGER NOT NULL PRIMARY KEY,
    user_id VARCHAR(255) NOT NULL,
    name VARCHAR(255) NOT NULL,
    fingerprint VARCHAR(255) NOT NULL,
    public_key TEXT NOT NULL,
    created_at VARCHAR(26) NOT NULL,
    UNIQUE (user_id, name)
);
CREATE TABLE IF NOT EXISTS compute_quotas (
    project_id VARCHAR(255) NOT NULL,
    resource VARCHAR(300) NOT NULL,
    hard_limit INTEGER NOT NULL,
    PRIMARY KEY (project_id, resource)
);
CREATE TABLE IF NOT EXISTS compute_quota_locks (
    holder VARCHAR(300) NOT NULL PRIMARY KEY,
    generation INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS compute_servers (
    id INTEGER NOT NULL PRIMARY KEY,
    uuid VARCHAR(36) NOT NULL UNIQUE,
    project_id VARCHAR(255) NOT NULL,
    user_id VARCHAR(255) NOT NULL,
    name VARCHAR(255) NOT NULL,
    hostname VARCHAR(255) NOT NULL,
    description TEXT,
    reservation_id VARCHAR(32) NOT NULL,
    launch_index INTEGER NOT NULL,
    key_name VARCHAR(255),
    image VARCHAR(36),
    flavor TEXT NOT NULL,
    resources TEXT,
    zone VARCHAR(255),
    server_group VARCHAR(36),
    disk_config VARCHAR(16) NOT NULL,
    access_ip_v4 VARCHAR(64),
    access_ip_v6 VARCHAR(64),
    request TEXT,
    handed INTEGER NOT NULL,
    owner VARCHAR(36),
    refusal TEXT,
    deleting INTEGER NOT NULL,
    task VARCHAR(32),
    seen_status VARCHAR(32),
    seen_power VARCHAR(32),
    locked_by VARCHAR(16),
    locked_reason TEXT,
    created_at VARCHAR(26) NOT NULL,
    updated_at VARCHAR(26),
    settled_at VARCHAR(26)
);
CREATE INDEX IF NOT EXISTS compute_servers_created ON compute_servers (created_at, id);
CREATE INDEX IF NOT EXISTS compute_servers_of_project ON compute_servers (project_id, created_at, id);
CREATE INDEX IF NOT EXISTS compute_servers_reservation ON compute_servers (reservation_id);
CREATE INDEX IF NOT EXISTS compute_servers_group ON compute_servers (server_group);
CREATE INDEX IF NOT EXISTS compute_servers_handed ON compute_servers (handed);
CREATE INDEX IF NOT EXISTS compute_servers_deleting ON compute_servers (deleting);
CREATE INDEX IF NOT EXISTS compute_servers_settled_at ON compute_servers (settled_at);
CREATE INDEX IF NOT EXISTS compute_servers_task ON compute_servers (task);
CREATE TABLE IF NOT EXISTS compute_server_metadata (
    server_id INTEGER NOT NULL,
    item VARCHAR(255) NOT NULL,
    setting VARCHAR(255) NOT NULL,
    PRIMARY KEY (server_id, item),
    FOREIGN KEY (server_id) REFERENCES compute_servers (id)
);
CREATE TABLE IF NOT EXISTS compute_server_tags (
    server_id INTEGER NOT NULL,
    tag VARCHAR(60) NOT NULL,
    PRIMARY KEY (server_id, tag),
    FOREIGN KEY (server_id) REFERENCES compute_servers (id)
);
CREATE TABLE IF NOT EXISTS compute_server_actions (
    id INTEGER NOT NULL PRIMARY KEY,
    server_uuid VARCHAR(36) NOT NULL,
    project_id VARCHAR(255) NOT NULL,
    user_id VARCHAR(255) NOT NULL,
    request_id VARCHAR(64) NOT NULL,
    action VARCHAR(64) NOT NULL,
    event VARCHAR(64) NOT NULL,
    body TEXT,
    image VARCHAR(36),
    host VARCHAR(255),
    outcome VARCHAR(16),
    details TEXT,
    started_at VARCHAR(26) NOT NULL,
    finished_at VARCHAR(26)
);
CREATE INDEX IF NOT EXISTS compute_server_actions_server ON compute_server_actions (server_uuid);
CREATE INDEX IF NOT EXISTS compute_server_actions_started_at ON compute_server_actions (started_at);
CREATE TABLE IF NOT EXISTS compute_console_tokens (
    token_hash VARCHAR(64) NOT NULL PRIMARY KEY,
    server_uuid VARCHAR(36) NOT NULL,
    kind VARCHAR(16) NOT NULL,
    host VARCHAR(255) NOT NULL,
    port INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS compute_console_tokens_server ON compute_console_tokens (server_uuid);
CREATE INDEX IF NOT EXISTS compute_console_tokens_expires_at ON compute_console_tokens (expires_at);

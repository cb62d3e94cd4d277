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

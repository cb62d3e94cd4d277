CREATE TABLE IF NOT EXISTS programmings (
    id INTEGER NOT NULL PRIMARY KEY,
    uuid VARCHAR(36) NOT NULL UNIQUE,
    bind_uuid VARCHAR(36) NOT NULL,
    deployable_id INTEGER NOT NULL,
    arq_id INTEGER UNIQUE,
    kind VARCHAR(16),
    subject VARCHAR(255),
    ended INTEGER NOT NULL,
    failure TEXT,
    deadline VARCHAR(26) NOT NULL,
    created_at VARCHAR(26) NOT NULL,
    FOREIGN KEY (deployable_id) REFERENCES deployables (id),
    FOREIGN KEY (arq_id) REFERENCES accelerator_requests (id)
);
CREATE INDEX IF NOT EXISTS programmings_bind_uuid ON programmings (bind_uuid);
CREATE INDEX IF NOT EXISTS programmings_deployable_id ON programmings (deployable_id);
CREATE INDEX IF NOT EXISTS programmings_deadline ON programmings (deadline);

-- +goose Up

-- The vault's rows, sealed. The counter rises by one with every change of them.
CREATE TABLE vault_counter (
  one     INTEGER PRIMARY KEY CHECK (one = 1),
  counter INTEGER NOT NULL CHECK (counter >= 0)
) STRICT;
INSERT INTO vault_counter (one, counter) VALUES (1, 0);

CREATE TABLE vault_rows (
  id      TEXT PRIMARY KEY,
  class   TEXT NOT NULL,
  version INTEGER NOT NULL CHECK (version >= 0),
  data    BLOB NOT NULL
) STRICT;

-- Batches of events that the log does not have yet, in order.
CREATE TABLE outbox (
  seq    INTEGER PRIMARY KEY AUTOINCREMENT,
  id     BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
  sealed INTEGER NOT NULL CHECK (sealed IN (0, 1)),
  body   BLOB NOT NULL
) STRICT;

CREATE TABLE runs (
  id      TEXT PRIMARY KEY CHECK (id <> ''),
  state   TEXT NOT NULL CHECK (state <> ''),
  opened  INTEGER NOT NULL,
  changed INTEGER NOT NULL,
  sealed  BLOB
) STRICT;

CREATE TABLE epochs (
  id     TEXT PRIMARY KEY CHECK (id <> ''),
  run    TEXT NOT NULL REFERENCES runs (id),
  state  TEXT NOT NULL CHECK (state <> ''),
  opened INTEGER NOT NULL,
  ended  INTEGER NOT NULL,
  sealed BLOB
) STRICT;
CREATE INDEX epochs_run ON epochs (run, id);

CREATE TABLE grants (
  id     TEXT PRIMARY KEY CHECK (id <> ''),
  run    TEXT NOT NULL REFERENCES runs (id),
  epoch  TEXT NOT NULL REFERENCES epochs (id),
  state  TEXT NOT NULL CHECK (state <> ''),
  issued INTEGER NOT NULL,
  ended  INTEGER NOT NULL,
  sealed BLOB
) STRICT;
CREATE INDEX grants_run ON grants (run, id);
CREATE INDEX grants_live ON grants (id) WHERE ended = 0;

-- Deeds, rebuilt from the log: no reference to runs, which may be younger rows.
CREATE TABLE actions (
  id         TEXT PRIMARY KEY CHECK (id <> ''),
  run        TEXT NOT NULL,
  epoch      TEXT NOT NULL,
  state      TEXT NOT NULL,
  outcome    TEXT NOT NULL,
  seq        INTEGER NOT NULL CHECK (seq >= 0),
  started    INTEGER NOT NULL,
  finished   INTEGER NOT NULL,
  unresolved INTEGER NOT NULL CHECK (unresolved IN (0, 1)),
  digest     BLOB,
  sealed     BLOB
) STRICT;
CREATE INDEX actions_run ON actions (run, id);
CREATE INDEX actions_unresolved ON actions (id) WHERE unresolved = 1;

-- The log sequence that actions covers, and the log head the vault last saw.
CREATE TABLE log_applied (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  seq INTEGER NOT NULL CHECK (seq >= 0)
) STRICT;
INSERT INTO log_applied (one, seq) VALUES (1, 0);

CREATE TABLE log_anchor (
  one    INTEGER PRIMARY KEY CHECK (one = 1),
  seq    INTEGER NOT NULL CHECK (seq >= 0),
  head   BLOB,
  sealed BLOB
) STRICT;
INSERT INTO log_anchor (one, seq) VALUES (1, 0);

-- +goose Up

-- What the log was told of a run, with its sequence and time: the rows an incident record is made from. Of run '' is
-- what concerns every run. A sequence can come twice: once in a log that was lost, once in the one begun after it.
CREATE TABLE told (
  run    TEXT NOT NULL,
  seq    INTEGER NOT NULL CHECK (seq > 0),
  at     INTEGER NOT NULL,
  sealed INTEGER NOT NULL CHECK (sealed IN (0, 1)),
  body   BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX told_run ON told (run, at, seq);

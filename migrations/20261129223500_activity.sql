-- +goose Up

-- What an event of the rows is, where people look through all runs' calls at once: 'call' (an intent) or 'denied'. Rows from
-- before stay without; they are still in their run's record.
ALTER TABLE told ADD COLUMN class TEXT NOT NULL DEFAULT '';
CREATE INDEX told_class ON told (at, seq, class) WHERE class <> '';

-- +goose Up

-- An action's result is sealed apart from its row: it goes sooner.
ALTER TABLE actions ADD COLUMN result BLOB;
CREATE INDEX actions_finished ON actions (finished);

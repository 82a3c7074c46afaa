-- +goose Up
-- Jobs on hosts that have not ended: looked up at each unlock.
CREATE INDEX actions_running ON actions (id) WHERE state = 'running';

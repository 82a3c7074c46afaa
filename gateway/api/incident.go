package api

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// PathIncident is a path of the operators' door: IncidentArgs -> Incident.
const PathIncident = "run/incident"

// IncidentArgs name a run. Entries asks for the rows behind the records too, for whoever compares them with the log.
type IncidentArgs struct {
	ID      string `json:"id"`
	Entries bool   `json:"entries,omitzero"`
}

// Incident answers run/incident: what the gateway's rows say of a run, and a look at its processes.
type Incident struct {
	AgentRun string          `json:"agentRun"`
	State    string          `json:"state"`             // of the run, as the gateway acts by it
	Upto     uint64          `json:"upto"`              // the log's last record when the rows were read
	Vault    string          `json:"vault"`             // absent, locked, ready, quarantined
	Records  jsontext.Value  `json:"records"`           // an array of auditlog/incident.Record, one per suspect process
	Entries  []IncidentEntry `json:"entries,omitempty"` // in the log's order
}

// IncidentEntry is one event as the rows have it.
type IncidentEntry struct {
	Seq   uint64         `json:"seq"`
	Time  time.Time      `json:"time"`
	Event jsontext.Value `json:"event"` // as the log has it
}

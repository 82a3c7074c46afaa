package gateway

// A program that is exchanged on disk while it runs (a rebuild, an update) keeps its epoch: the process is the same. From
// then on its calls are recorded with artifactDrift, and the setting on_artifact_change says whether they are refused
// server_suspended until it starts anew. It holds for the process that speaks to the agents' door; files that an
// interpreter loads are not looked at here.
const (
	artifactNote    = "note"
	artifactSuspend = "suspend"
)

// onArtifact is the setting as it counts.
func (s settings) onArtifact() string {
	if s.OnArtifact == "" {
		return artifactNote
	}
	return s.OnArtifact
}

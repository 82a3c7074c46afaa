package notify

import (
	"context"
	"fmt"
	"os/exec"
)

// desktop shows a note by AppleScript. The text is ours alone, so nothing in it needs quoting.
type desktop struct{}

func (*desktop) tell(ctx context.Context, n note) error {
	if n == (note{}) {
		return nil
	}
	script := fmt.Sprintf("display notification %q with title %q", n.text(), title)
	if err := exec.CommandContext(ctx, "/usr/bin/osascript", "-e", script).Run(); err != nil {
		return fmt.Errorf("show notification: %w", err)
	}
	return nil
}

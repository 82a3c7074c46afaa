//go:build !linux && !darwin

package notify

import (
	"context"
	"errors"
)

// desktop has no way here.
type desktop struct{}

func (*desktop) tell(context.Context, note) error {
	return errors.New("show notification: this system has no way to do it")
}

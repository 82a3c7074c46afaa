package gateway

import (
	"fmt"

	"sallyport/gateway/api"
)

// shownMost bounds the cards an operator may want to see at once, and queueMost the asks behind an epoch's.
const (
	shownMost = 64
	queueMost = 1024
)

// orDefault are the budgets that count: none were set is the default.
func (b budgets) orDefault() budgets {
	if b == (budgets{}) {
		return defaultBudgets
	}
	return b
}

func (b budgets) check() error {
	b = b.orDefault()
	if b.Epoch < 1 || b.Session < b.Epoch || b.Installation < b.Session || b.Installation > shownMost || b.Queue < 0 || b.Queue > queueMost {
		return api.Fail("invalid_request", fmt.Sprintf("budgets: 1 <= epoch <= session <= installation <= %d, and 0 <= queue <= %d", shownMost, queueMost))
	}
	return nil
}

// String is b as a TOML table.
func (b budgets) String() string {
	b = b.orDefault()
	return fmt.Sprintf("{ epoch = %d, session = %d, installation = %d, queue = %d }", b.Epoch, b.Session, b.Installation, b.Queue)
}

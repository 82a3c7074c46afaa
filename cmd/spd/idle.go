package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	idleLook  = 5 * time.Second
	idleQuiet = 4 << 20 // bytes allocated between two looks by a gateway that nobody asks for anything
	idleWorth = 8 << 20 // bytes allocated since memory was given back last
)

// idle tells when a gateway that worked has nothing to do any more.
type idle struct {
	seen  uint64 // bytes allocated by the last look
	given uint64 // and when memory was given back
}

// due says whether now is the time to give memory back, of which allocated bytes have been taken since the start.
func (i *idle) due(allocated uint64) bool {
	quiet := allocated-i.seen < idleQuiet
	i.seen = allocated
	if !quiet || allocated-i.given < idleWorth {
		return false
	}
	i.given = allocated
	return true
}

// giveBack gives what a gateway at rest doesn't need back to the system, until ctx ends. By itself the runtime keeps half as
// much again as was ever in use at a time, for minutes; agents stay connected for days.
func giveBack(ctx context.Context) {
	look := time.NewTicker(idleLook)
	defer look.Stop()
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	for i := new(idle); ; {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		metrics.Read(sample)
		if i.due(sample[0].Value.Uint64()) {
			debug.FreeOSMemory()
		}
	}
}

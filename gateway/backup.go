package gateway

import (
	"sallyport/auditlog/event"
)

// opBackup answers with the vault as one age file: its database as of one moment, every row in it still sealed. It is
// made whole, and recorded, before its first byte leaves.
func (g *Gateway) opBackup(r opRequest) (any, error) {
	s, err := g.newSpool()
	if err != nil {
		return nil, err
	}
	m, err := g.vault.Backup(r.ctx, s)
	if err == nil {
		err = s.rewind()
	}
	if err == nil {
		err = g.log.note(r.ctx, "", event.BackupMade{Generation: m.Generation, Counter: m.Counter, Length: s.length, Digest: s.digest(), Operator: r.who})
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}
